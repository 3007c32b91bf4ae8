package paritytest

import (
	"flag"
	"testing"
	"time"

	"github.com/evictd/evictd/host/paritytest/world"
)

var worlds = flag.Int("parity.worlds", 0, "how many worlds are played; 0 goes by the duration")

// phases are the moments within its ten seconds at which a kubelet may make its passes.
const phases = 20

// evictd never costs more pods within ten minutes than a kubelet may, whose passes fall on
// some moment of its ten seconds, and its first victim is never later. Where the OOM killer
// takes pods on either side, the two nodes have little in common after the first kill: there
// all worlds together must not cost more, and few of them.
func TestNeverMorePodsAreLostThanWithTheKubelet(t *testing.T) {
	if *worlds == 0 {
		*worlds = whole(500, 50)
	}
	var lost, kubelets, short, kubeletsShort, killed, more, later int
	for n := range uint64(*worlds) {
		seed := uint64(*firstSeed) - 1 + n
		w := world.New(seed)
		got := play(t, w, world.NewEvictd())
		want := playKubelet(t, w, seed%phases)
		lost, kubelets = lost+len(got.Lost), kubelets+len(want.Lost)
		short, kubeletsShort = short+int(got.Short.Seconds()), kubeletsShort+int(want.Short.Seconds())
		if want.First >= 0 && (got.First < 0 || got.First > want.First) {
			later++
			t.Errorf("first victim after %v, with the kubelet after %v: %v", got.First, want.First, w)
		}
		most, kills := want.Worst(), got.Kills+want.Kills
		for phase := uint64(0); got.Worst() > most && phase < phases; phase++ {
			other := playKubelet(t, w, phase)
			most, kills = max(most, other.Worst()), kills+other.Kills
		}
		switch {
		case got.Worst() <= most:
		case kills > 0:
			killed++
		default:
			more++
			t.Errorf("%d pods lost in ten minutes, with the kubelet %d at most: %v", got.Worst(), most, w)
		}
	}
	if lost > kubelets || killed > *worlds/12 {
		t.Errorf("%d pods lost, with the kubelet %d; more in %d worlds with the OOM killer, want at most a twelfth", lost, kubelets, killed)
	}
	t.Logf("%d worlds: %d pods lost, with the kubelet %d; %d s under the threshold, with the kubelet %d s; more pods lost in %d worlds, and in %d in which the OOM killer took some; a later first victim in %d",
		*worlds, lost, kubelets, short, kubeletsShort, more, killed, later)
}

func playKubelet(t *testing.T, w *world.World, phase uint64) *world.Node {
	k, err := world.NewKubelet(theKubelet, time.Duration(phase)*10*time.Second/phases)
	if err != nil {
		t.Fatal(err)
	}
	return play(t, w, k)
}

func play(t *testing.T, w *world.World, m world.Manager) *world.Node {
	n, err := world.Play(w, m)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
