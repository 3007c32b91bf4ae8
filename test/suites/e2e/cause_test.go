package e2e_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

// causeMiB of memory take the node below a threshold that is distanceMiB away.
const causeMiB, distanceMiB = 1200, 700

// The first line that explain says has whose growth it was that brought the pressure: the pod's
// own, another pod's or that of a daemon of the node.
func TestExplainSaysWhoTookTheMemory(t *testing.T) {
	n := newSite(t, shared(modern(t)))
	program, err := hog.Install(t.Context(), n.Stack)
	must(t, err)
	must(t, hog.WarmUp(t.Context(), n.Stack, program, causeMiB))
	n.hog(t, "small", 64, "", n.station(t, "small"))
	for _, c := range []struct {
		name, victim, says string
		waits              func(t *testing.T, at hog.Station) (end func())
	}{
		{"own", "e2e/own", "which it took itself", func(t *testing.T, at hog.Station) func() {
			return removed(t, n.hog(t, "own", causeMiB, "", at))
		}},
		{"neighbour", "e2e/small", "which e2e/neighbour took", func(t *testing.T, at hog.Station) func() {
			return removed(t, n.hog(t, "neighbour", causeMiB, "2Gi", at))
		}},
		{"daemon", "e2e/small", "which no pod took", func(t *testing.T, at hog.Station) func() {
			daemon := n.Command(t.Context(), program, "--mib", strconv.Itoa(causeMiB), "--go", filepath.Join(at.Dir, "go"))
			must(t, daemon.Start())
			return func() {
				_ = daemon.Process.Kill()
				_ = daemon.Wait() // it was killed
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := n.station(t, c.name)
			defer c.waits(t, at)()
			available, err := crossing.Available()
			must(t, err)
			state := filepath.Join(n.Dir, "state-"+c.name)
			n.chapter(t, c.name)
			n.start(t, map[string]any{
				"evictionHard": map[string]string{"memory.available": fmt.Sprint(available - distanceMiB*mib)}, "dryRun": true, "stateDir": state,
			})
			defer n.stop(t)
			n.await(t, "use of pods sampled")
			must(t, at.Release(t.Context()))
			if said := n.await(t, "evicting pod"); said.String("pod") != c.victim {
				t.Errorf("evicts %s, want %s", said.String("pod"), c.victim)
			}
			var reported string
			eventually(t, "explain knows of "+c.victim, func() (bool, error) {
				out, err := exec.CommandContext(t.Context(), filepath.Join("../../../bin", "evictd"), "explain", "--state-dir", state, c.victim).CombinedOutput()
				reported = string(out)
				return err == nil, err
			})
			first, _, _ := strings.Cut(reported, "\n")
			t.Log("    " + first)
			if !strings.Contains(first, c.victim+" would have been evicted for memory.available, "+c.says+", but for the dry run") {
				t.Errorf("want that it says %q, in\n%s", c.says, reported)
			}
		})
	}
}

func (n *site) station(t *testing.T, name string) hog.Station {
	t.Helper()
	at, err := hog.NewStation(filepath.Join(n.Dir, "stations", name))
	must(t, err)
	return at
}

// hog starts a pod that takes so much memory when it is released, and asks for the request.
func (n *site) hog(t *testing.T, name string, mibs int, request string, at hog.Station) *stack.Pod {
	t.Helper()
	manifest := n.manifest(sketch{name: name})
	manifest.Spec.Volumes = append(manifest.Spec.Volumes, v1.Volume{Name: "station", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: at.Dir}}})
	c := &manifest.Spec.Containers[0]
	c.Image, c.VolumeMounts = hog.Image, append(c.VolumeMounts, v1.VolumeMount{Name: "station", MountPath: "/station"})
	c.Command = []string{"/bin/hog", "--mib", strconv.Itoa(mibs), "--go", "/station/go", "--stamp", "/station/stamps"}
	if request != "" {
		c.Resources.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(request)}
	}
	pod, err := n.RunPod(t.Context(), manifest)
	must(t, err)
	_, err = at.WaitStamp(t.Context(), "ready")
	must(t, err)
	return pod
}

// removed returns what removes a pod.
func removed(t *testing.T, pod *stack.Pod) func() {
	return func() { must(t, pod.Remove(t.Context())) }
}
