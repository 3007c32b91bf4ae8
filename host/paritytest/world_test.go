package paritytest

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/host/paritytest/world"
)

var (
	worlds = flag.Int("parity.worlds", 0, "how many worlds are played; 0 goes by the duration")
	lower  = flag.Float64("parity.lower", 0, "by how many MiB memory.available is lower for evictd than for the kubelet, as MemAvailable mostly is: more pods are no failure then")
)

// phases are the moments within its ten seconds at which a kubelet may make its passes.
const phases = 20

// evictd never costs more pods within ten minutes than a kubelet may, whose passes fall on
// some moment of its ten seconds, and its first victim is never later. Where the OOM killer
// takes pods on either side, the clusters have little in common after the first kill: there
// all worlds together must not cost more, and few of them. A kubelet under pressure refuses
// BestEffort pods that come before the taint, or past the scheduler: its refusals are
// counted where evictd, which cannot refuse a pod, evicts such pods.
func TestNeverMorePodsAreLostThanWithTheKubelet(t *testing.T) {
	if *worlds == 0 {
		*worlds = whole(300, 30)
	}
	var lost, kubelets, short, kubeletsShort, killed, refused, more, later, alone int
	var earlier []time.Duration
	for n := range uint64(*worlds) {
		seed := uint64(*firstSeed) - 1 + n
		w := world.New(seed)
		got := play(t, w, evictd)
		want := playKubelet(t, w, seed%phases)
		lost, kubelets = lost+len(got.Lost), kubelets+len(want.Lost)
		short, kubeletsShort = short+int(got.Short.Seconds()), kubeletsShort+int(want.Short.Seconds())
		if want.First >= 0 && (got.First < 0 || got.First > want.First) && want.First < min(want.Limits, got.Limits) {
			later++
			t.Errorf("first victim after %v, with the kubelet after %v: %v", got.First, want.First, w)
		}
		switch {
		case got.First >= 0 && want.First >= 0:
			earlier = append(earlier, want.First-got.First)
		case got.First >= 0:
			alone++
		}
		most, seen, kills := want.Worst(), want.WorstSeen(), got.Kills+want.Kills
		for phase := uint64(0); got.Worst() > most && phase < phases; phase++ {
			other := playKubelet(t, w, phase)
			most, seen, kills = max(most, other.Worst()), max(seen, other.WorstSeen()), kills+other.Kills
		}
		switch {
		case got.Worst() <= most:
		case got.Worst() <= seen:
			refused++
			t.Logf("world %d, with refusals: %d pods lost in ten minutes, with the kubelet %d at most, and %d with the refused", seed, got.Worst(), most, seen)
		case kills > 0:
			killed++
			t.Logf("world %d, with OOM kills: %d pods lost in ten minutes, with the kubelet %d at most", seed, got.Worst(), most)
		case *lower > 0:
			more++
		default:
			more++
			t.Errorf("%d pods lost in ten minutes, with the kubelet %d at most: %v", got.Worst(), most, w)
		}
	}
	if *lower == 0 && (lost > kubelets || killed > 1+*worlds/40) {
		t.Errorf("%d pods lost, with the kubelet %d; more in %d worlds with the OOM killer, want at most a fortieth", lost, kubelets, killed)
	}
	if slices.Sort(earlier); len(earlier) > 0 {
		t.Logf("the first victim is earlier by %v in the median, %v in one world of ten; in %d worlds evictd alone takes one", earlier[len(earlier)/2], earlier[len(earlier)*9/10], alone)
	}
	t.Logf("%d worlds: %d pods lost, with the kubelet %d; %d s under the threshold, with the kubelet %d s; more pods lost in %d worlds, in %d in which a kubelet refused pods, and in %d in which the OOM killer took some; a later first victim in %d",
		*worlds, lost, kubelets, short, kubeletsShort, more, refused, killed, later)
}

func evictd(int) (world.Manager, error) { return world.NewEvictd(*lower), nil }

func playKubelet(t *testing.T, w *world.World, phase uint64) *world.Cluster {
	return play(t, w, func(node int) (world.Manager, error) {
		// The kubelets of two nodes look at different times.
		p := (phase + uint64(node)*(1+w.Seed/phases)) % phases
		return world.NewKubelet(theKubelet, time.Duration(p)*10*time.Second/phases)
	})
}

func play(t *testing.T, w *world.World, next func(int) (world.Manager, error)) *world.Cluster {
	c, err := world.Play(w, next, logged(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// logged returns the log of a world, if only one is played.
func logged(t *testing.T) func(string, ...any) {
	if *worlds != 1 {
		return nil
	}
	t.Log("a cluster")
	return t.Logf
}

// Worlds agree with a real cluster: to one pod for the kubelet, whose pace there is not that of a clock.
func TestWorldsAgreeWithARealCluster(t *testing.T) {
	for _, m := range world.InCluster() {
		got := play(t, m.World, evictd).Within(m.Span)
		least, most := 1<<10, 0
		for phase := range uint64(phases) {
			lost := playKubelet(t, m.World, phase).Within(m.Span)
			least, most = min(least, lost), max(most, lost)
		}
		if got != m.Evictd || m.Kubelet < least-1 || m.Kubelet > most+1 {
			t.Errorf("%s: not as in the cluster", m.Name)
		}
		t.Logf("%-30s with evictd %d, in the cluster %d; by the kubelet %d to %d, in the cluster %d", m.Name, got, m.Evictd, least, most, m.Kubelet)
	}
}
