package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

const (
	// A hog starts distanceMiB above the threshold and goes beyondMiB below it.
	distanceMiB, beyondMiB = 60, 30
	hogMiBPerSecond        = 40
	rounds, stoppedRounds  = 3, 20
)

// A reaction holds the times from a crossing, in milliseconds. term is 0 for a hog that got its
// SIGKILL first: a runtime in User-Mode Linux may take longer than the grace to send a SIGTERM.
type reaction struct{ chosen, term, ended, back float64 }

// figures is a story of the same crossings with evictd and with earlyoom, which ends processes.
func (n *node) figures(t *testing.T) {
	awaitUp(t, "memory")
	rows, pss := map[string][]reaction{}, map[string]int64{}
	for range rounds {
		rows["evictd"] = append(rows["evictd"], n.crossed(t, "evictd", ""))
	}
	pss["evictd"] = pssOf(t, "evictd")
	sh(t, "systemctl stop evictd")
	for range rounds {
		rows["earlyoom"] = append(rows["earlyoom"], n.crossed(t, "earlyoom", ""))
	}
	pss["earlyoom"] = n.earlyoomPSS
	sh(t, "sed 's/^dryRun: true$/dryRun: false/' "+asInstalled+" >"+installed+" && systemctl start evictd")

	type row struct {
		Name, Peer string
		Values     map[string]float64
	}
	table := struct {
		Title string
		Rows  []row
		Notes []string
	}{
		Title: "A node with cgroup v2: from a crossing of the available memory, ms",
		Notes: []string{fmt.Sprintf("%s in User-Mode Linux with one CPU, systemd and containerd: slow, but the same for both. A hog fills %d MiB/s; medians of %d rounds. The ratio is of the end of its process.",
			sh(t, "uname -sr"), hogMiBPerSecond, rounds)},
	}
	for _, by := range []string{"evictd", "earlyoom"} {
		values := map[string]float64{"pss_kib": float64(pss[by] >> 10)}
		for key, of := range map[string]func(reaction) float64{
			"term_ms": func(r reaction) float64 { return r.term }, "ended_ms": func(r reaction) float64 { return r.ended }, "back_ms": func(r reaction) float64 { return r.back },
		} {
			if ms := median(rows[by], of); ms != 0 {
				values[key] = ms
			}
		}
		table.Rows = append(table.Rows, row{Name: by, Values: values})
	}
	n.endedMS = median(rows["evictd"], func(r reaction) float64 { return r.ended })
	of := &table.Rows[0]
	of.Values["chosen_ms"] = median(rows["evictd"], func(r reaction) float64 { return r.chosen })
	of.Peer, of.Values["ratio"] = "earlyoom", of.Values["ended_ms"]/table.Rows[1].Values["ended_ms"]
	text, err := json.Marshal(table)
	must(t, err)
	fmt.Println(figuresMark + string(text))
}

// figuresMark precedes the figures on the console.
const figuresMark = "guest: figures "

func median(rows []reaction, of func(reaction) float64) float64 {
	var all []float64
	for _, r := range rows {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// crossed has a hog cross the threshold of evictd, or of an earlyoom, and returns what followed. evictd's figure is
// the kubelet's, earlyoom's is MemAvailable. A process may be stopped until the hog has ended.
func (n *node) crossed(t *testing.T, by, stop string) (r reaction) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*soon) // a runtime in User-Mode Linux is slow to remove a pod
	defer cancel()
	pod, station := n.hog(ctx, t)
	of := map[string]string{"evictd": crossing.Node, "earlyoom": crossing.Machine}[by]
	watch, err := crossing.Start(t.Context(), n.stack, of)
	must(t, err)
	lowest, err := watch.Lowest(ctx, 2*time.Second) // with the pod there
	must(t, err)
	threshold := lowest - distanceMiB*mib
	if by == "evictd" {
		configure(t, "memory.available", strconv.FormatInt(threshold, 10))
	} else {
		earlyoom := exec.CommandContext(t.Context(), "/usr/bin/earlyoom", "-r", "0", "-M", fmt.Sprintf("%d,%d", threshold>>10, threshold>>11), "-s", "100,100")
		must(t, earlyoom.Start())
		defer func() {
			n.earlyoomPSS = pssOf(t, "earlyoom")
			must(t, earlyoom.Process.Kill())
			_ = earlyoom.Wait() // killed
		}()
		eventually(t, "earlyoom has locked its memory", func() bool { return pssOf(t, "earlyoom") > 0 })
	}
	next := func(what string, is func(crossing.Sample) bool) crossing.Sample {
		for {
			select {
			case sample, ok := <-watch.Samples():
				if !ok {
					t.Fatal("the sampler died")
				}
				if is(sample) {
					return sample
				}
			case <-ctx.Done():
				t.Fatalf("not in %v: %s", soon, what)
			}
		}
	}
	hogs := processes(t, "hog")
	if len(hogs) != 1 {
		t.Fatalf("processes of hogs %q, want 1", hogs)
	}
	ended := make(chan int64, 1)
	go func() {
		for {
			if _, err := os.Readlink(hogs[0]); err != nil {
				ended <- crossing.Now()
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}()
	must(t, watch.Arm(threshold))
	if stop != "" {
		sh(t, "busybox kill -STOP "+stop)
		defer sh(t, "busybox kill -CONT "+stop) // also of a test that fails
	}
	must(t, station.Release(ctx))
	crossed := next("the hog crosses the threshold", func(s crossing.Sample) bool { return s.Crossed })
	back := next("the memory is back", func(s crossing.Sample) bool { return s.AvailableBytes > threshold+distanceMiB*mib/2 })
	must(t, watch.Stop())
	r.ended, r.back = ms(<-ended-crossed.At), ms(back.At-crossed.At)
	if stop != "" {
		sh(t, "busybox kill -CONT "+stop)
	}
	stamps, err := station.Stamps()
	must(t, err)
	if at := stamps["term"]; at != 0 {
		r.term = ms(at - crossed.At)
	}
	must(t, pod.WaitGone(ctx))
	if by == "evictd" {
		offset := time.Now().UnixNano() - crossing.Now()
		var record struct{ Time time.Time }
		eventually(t, "evictd is through with it", func() bool {
			return slices.ContainsFunc(status(t).Evictions, func(e eviction) bool { return e.Pod == pod.Key() && slices.Contains(over, e.State) })
		})
		said := sh(t, "evictctl evictions --json "+pod.Key()) // what it warns of is no JSON
		at := strings.LastIndex("\n"+said, "\n{")
		if at < 0 || json.NewDecoder(strings.NewReader(said[at:])).Decode(&record) != nil {
			t.Fatalf("evictions of %s: %s", pod.Key(), said)
		}
		r.chosen = ms(record.Time.UnixNano() - offset - crossed.At)
	}
	must(t, pod.Remove(ctx))
	t.Logf("%s: %+v", by, r)
	return r
}

// stopped is a story of a runtime that does not answer as the hog crosses, as one that is paged out.
func (n *node) stopped(t *testing.T) {
	most := n.endedMS + 2000 // beside a runtime that answers, and two lists that do not come
	awaitUp(t, "memory")
	for i := range stoppedRounds {
		if r := n.crossed(t, "evictd", sh(t, "systemctl show -P MainPID containerd")); r.ended > most {
			t.Errorf("round %d: the hog ended %.0f ms after the crossing, want at most %.0f", i, r.ended, most)
		}
	}
}

// hog starts a pod whose only process is a hog that waits for its release.
func (n *node) hog(ctx context.Context, t *testing.T) (*stack.Pod, hog.Station) {
	t.Helper()
	n.run++
	name := fmt.Sprintf("hog-%d", n.run)
	station, err := hog.NewStation(filepath.Join(n.stack.Dir, "stations", name))
	must(t, err)
	pod, err := n.stack.RunPod(ctx, &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "figures", Name: name, UID: types.UID(fmt.Sprintf("11111111-0000-4000-8000-%012d", n.run))},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: "station", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: station.Dir}}}},
			Containers: []v1.Container{{
				Name: "main", Image: hog.Image,
				Command: []string{
					"/bin/hog", "--mib", strconv.Itoa(distanceMiB + beyondMiB), "--rate-mib-per-s", strconv.Itoa(hogMiBPerSecond),
					"--go", "/station/go", "--stamp", "/station/stamps",
				},
				VolumeMounts: []v1.VolumeMount{{Name: "station", MountPath: "/station"}},
			}},
		},
	})
	must(t, err)
	return pod, station
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// processes returns /proc/PID/exe of all processes of some programs.
func processes(t *testing.T, programs ...string) (exes []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	must(t, err)
	for _, exe := range all {
		if program, err := os.Readlink(exe); err == nil && slices.Contains(programs, filepath.Base(program)) {
			exes = append(exes, exe)
		}
	}
	return exes
}

// pssOf returns the proportional set size of all processes of some programs, in bytes.
func pssOf(t *testing.T, programs ...string) (bytes int64) {
	t.Helper()
	for _, exe := range processes(t, programs...) {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(exe), "smaps_rollup"))
		must(t, err)
		_, after, _ := strings.Cut(string(text), "\nPss:")
		var kib int64
		_, err = fmt.Sscan(after, &kib)
		must(t, err)
		bytes += kib << 10
	}
	return bytes
}
