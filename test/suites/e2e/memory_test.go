package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

// causeMiB of memory take the node below a threshold that is distanceMiB away.
const causeMiB, distanceMiB = 1200, 700

// unknownFor is the time after its start for which evictd names no cause.
const unknownFor = 10 * time.Second

// The first line that explain says has whose growth it was that brought the pressure: the pod's
// own, another pod's or that of a daemon of the node.
func TestExplainSaysWhoTookTheMemory(t *testing.T) {
	n := newSite(t, shared(modern(t)))
	program, err := hog.Install(t.Context(), n.Stack)
	must(t, err)
	must(t, hog.WarmUp(t.Context(), n.Stack, program, causeMiB))
	hogPod(t, n.Stack, "small", 64, "", station(t, n.Stack, "small"))
	for _, c := range []struct {
		name, victim, says string
		waits              func(t *testing.T, at hog.Station) (end func())
	}{
		{"own", "e2e/own", ", which it took itself", func(t *testing.T, at hog.Station) func() {
			return removed(t, hogPod(t, n.Stack, "own", causeMiB, "", at))
		}},
		{"neighbour", "e2e/small", ", which e2e/neighbour took", func(t *testing.T, at hog.Station) func() {
			return removed(t, hogPod(t, n.Stack, "neighbour", causeMiB, "2Gi", at))
		}},
		{"daemon", "e2e/small", "; the rest of the node took it", func(t *testing.T, at hog.Station) func() {
			daemon := n.Command(t.Context(), program, "--mib", strconv.Itoa(causeMiB), "--go", filepath.Join(at.Dir, "go"))
			must(t, daemon.Start())
			return func() {
				_ = daemon.Process.Kill()
				_ = daemon.Wait() // it was killed
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := station(t, n.Stack, c.name)
			defer c.waits(t, at)()
			available, err := crossing.Available()
			must(t, err)
			state := filepath.Join(n.Dir, "state-"+c.name)
			n.log.chapter(t, c.name)
			n.start(t, map[string]any{
				"evictionHard": map[string]string{"memory.available": fmt.Sprint(available - distanceMiB*mib)}, "dryRun": true, "stateDir": state,
			})
			defer n.stop(t)
			n.log.await(t, "use of pods sampled")
			time.Sleep(unknownFor)
			must(t, at.Release(t.Context()))
			if said := n.log.await(t, "evicting pod"); said.String("pod") != c.victim {
				t.Errorf("evicts %s, want %s", said.String("pod"), c.victim)
			}
			var reported string
			eventually(t, "explain knows of "+c.victim, func() (bool, error) {
				out, err := exec.CommandContext(t.Context(), filepath.Join("../../../bin", "evictctl"), "explain", "--state-dir", state, c.victim).CombinedOutput()
				reported = string(out)
				return err == nil, err
			})
			first, _, _ := strings.Cut(reported, "\n")
			t.Log("    " + first)
			if !strings.HasSuffix(first, "dry run: "+c.victim+" would have been evicted for memory.available"+c.says) {
				t.Errorf("want that it says %q, in\n%s", c.says, reported)
			}
		})
	}
}

// grows takes 512 MiB at once when the shell gets SIGTERM, and stays.
const grows = `trap 'exec dd if=/dev/zero of=/dev/null bs=512M' TERM; while :; do sleep 3600 & wait; done`

// holds uses 64 MiB from the moment at which the file is there, and before it more.
const holds = `exec awk 'BEGIN {s = "x"; for (i = 0; i < 26; i++) s = s s; system("touch /data/held; sleep 100000")}'`

// A pod over the limit of its volume took memory while it ended: memory was short, and innocents went for it.
// Memory is that of all pods, of which others on this machine take nothing.
func TestAVictimThatTakesMemoryWhileItEndsGoesAlone(t *testing.T) {
	n := newSite(t, shared(modern(t)))
	program, err := hog.Install(t.Context(), n.Stack)
	must(t, err)
	must(t, hog.WarmUp(t.Context(), n.Stack, program, 1024)) // the tenant has one second
	for _, pacing := range []string{"evictd", "kubelet"} {
		for round := range 3 {
			var innocents []*stack.Pod
			for i := range 4 {
				innocents = append(innocents, run(t, n.Stack, sketch{name: fmt.Sprintf("innocent-%d", i), containers: map[string]string{"main": holds}, emptyDirs: map[string]string{"data": ""}}))
			}
			tenant := run(t, n.Stack, sketch{name: "tenant", containers: map[string]string{"main": grows}, emptyDirs: map[string]string{"data": "1Mi"}})
			for _, p := range innocents {
				eventually(t, p.Key()+" holds its memory", func() (bool, error) {
					_, err := os.Stat(filepath.Join(p.EmptyDir("data"), "held"))
					return err == nil, err
				})
			}
			must(t, n.LimitPods(1536*mib))
			n.start(t, map[string]any{"evictionHard": map[string]string{"allocatableMemory.available": "1200Mi"}, "pacing": pacing})
			must(t, os.WriteFile(filepath.Join(tenant.EmptyDir("data"), "file"), make([]byte, 3*mib), 0o600))
			n.log.await(t, "pod finished")
			if pacing == "evictd" { // which looks meanwhile
				n.log.await(t, "threshold met")
				n.log.await(t, "threshold satisfied")
			}
			n.log.wantEvicted(t, tenant.Key())
			wantRunning(t, innocents...)
			n.stop(t)
			must(t, removePods(t.Context(), n.Stack))
			t.Logf("  pacing %s, round %d: the tenant alone", pacing, round)
		}
	}
}

// The kernel killed a process of a container at its limit, and no one said so.
func TestAKernelKillIsRecorded(t *testing.T) {
	n := newSite(t, shared(modern(t)))
	state := filepath.Join(n.Dir, "state-kernel")
	n.start(t, map[string]any{"evictionHard": map[string]string{"memory.available": "1Mi"}, "stateDir": state})
	n.log.await(t, "use of pods sampled")
	time.Sleep(5 * time.Second) // memory to spare is seen for three seconds
	greedy := sketch{name: "greedy", containers: map[string]string{"main": "head -c 200m /dev/zero | tail >/dev/null; sleep 100000"}}.manifest()
	greedy.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
	pod := runPod(t, n.Stack, greedy)
	const why = "the kernel killed a process of container main: the container reached its limit of 64Mi of memory; a larger limit, or less use, would have spared it"
	if event := n.log.await(t, "event"); event.String("reason") != "KernelOOMKill" || event.String("name") != pod.Key() || event.String("message") != why {
		t.Errorf("event %v, want %q", event.Attrs, why)
	}
	var listed string
	eventually(t, "the kill is on record", func() (bool, error) {
		out, err := exec.CommandContext(t.Context(), "../../../bin/evictctl", "evictions", "--state-dir", state).CombinedOutput()
		listed = string(out)
		return strings.Contains(listed, pod.Key()), err
	})
	explained, err := exec.CommandContext(t.Context(), "../../../bin/evictctl", "explain", "--state-dir", state, pod.Key()).CombinedOutput()
	must(t, err)
	reported, err := exec.CommandContext(t.Context(), "../../../bin/evictctl", "report", "--state-dir", state).CombinedOutput()
	must(t, err)
	t.Logf("%s\n%s\n%s", listed, explained, reported)
	if !strings.Contains(string(reported), "container     "+pod.Key()) {
		t.Errorf("the report does not name the container's kill")
	}
	for _, want := range []string{pod.Key() + ": " + why, "evictd        no threshold of memory was met"} {
		if !strings.Contains(string(explained), want) {
			t.Errorf("explain does not say %q", want)
		}
	}
	wantRunning(t, pod)
	n.stop(t)
}

func station(t *testing.T, n *stack.Stack, name string) hog.Station {
	t.Helper()
	at, err := hog.NewStation(filepath.Join(n.Dir, "stations", name))
	must(t, err)
	return at
}

// hogPod starts a pod that takes so much memory when it is released, and asks for the request.
func hogPod(t *testing.T, n *stack.Stack, name string, mibs int, request string, at hog.Station) *stack.Pod {
	t.Helper()
	manifest := hogManifest(sketch{name: name}, at, "--mib", strconv.Itoa(mibs), "--go", "/station/go")
	if request != "" {
		manifest.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
	}
	pod := runPod(t, n, manifest)
	_, err := at.WaitStamp(t.Context(), "ready")
	must(t, err)
	return pod
}

// hogManifest is of a pod whose container is the hog, which stamps at the station.
func hogManifest(s sketch, at hog.Station, args ...string) *v1.Pod {
	s.image, s.hostDirs = hog.Image, map[string]string{"station": at.Dir}
	manifest := s.manifest()
	manifest.Spec.Containers[0].Command = append([]string{"/bin/hog", "--stamp", "/station/stamps"}, args...)
	return manifest
}

// removed returns what removes a pod.
func removed(t *testing.T, pod *stack.Pod) func() {
	return func() { must(t, pod.Remove(t.Context())) }
}
