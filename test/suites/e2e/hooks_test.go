package e2e_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/stack"
)

// hookFailed is evictd's message about a hook that was cut short.
const hookFailed = "preStop hook failed, the container is stopped all the same"

// A pod ends as a kubelet would end it: its hook has run to its end within a soft
// grace, and is cut short by a hard eviction; sidecars go after the main container.
func TestTheEndOfAPodWithAHookAndSidecars(t *testing.T) {
	for _, e := range engines(t) {
		t.Run(e.name, func(t *testing.T) {
			n := newSite(t, shared(e))
			disk := filepath.Join(n.Dir, "node")
			free := freeOn(t, disk, bytesOf)
			// Before evictd: while no pod has a limit they are looked at once a minute only.
			hasty := runWitness(t, n.Stack, "hasty", "sleep 60")
			n.start(t, map[string]any{
				"evictionHard":              map[string]string{},
				"evictionSoft":              map[string]string{"nodefs.available": fmt.Sprint(free / 2)},
				"evictionSoftGracePeriod":   map[string]string{"nodefs.available": "1s"},
				"evictionMaxPodGracePeriod": 40,
			})

			n.log.chapter(t, "a hard eviction: a second for the hook, and another for the containers")
			cross(t, hasty, bytesIn("/data/file", 25*mib))
			n.log.await(t, "pod finished")
			n.log.await(t, hookFailed)
			took, _ := n.log.await(t, "pod killed").Attrs["tookSeconds"].(float64)
			t.Logf("    killed in %v s", took)
			if took < 1 || took > 5 { // 2 on a machine that has time
				t.Errorf("killed in %v s, want about 2", took)
			}
			said := testimony(t, notes(n.Dir, "hasty"))
			if !slices.Contains(said, "the hook begins") || slices.Contains(said, "the hook ends") || !slices.Contains(said, "main is told") {
				t.Errorf("its containers saw %q, want a hook that begins and does not end, and then SIGTERM", said)
			}

			n.log.chapter(t, "a soft eviction: one after the other")
			patient := runWitness(t, n.Stack, "patient", "sleep 2")
			newBallast(t, disk).fillTo(t, bytesOf, free/4)
			n.log.await(t, "pod finished")
			n.log.print(t)
			want := []string{"the hook begins", "the hook ends", "main is told", "main ends", "late is told", "late ends", "early is told", "early ends"}
			if got := testimony(t, notes(n.Dir, "patient")); !slices.Equal(got, want) {
				t.Errorf("its containers saw %q, want %q", got, want)
			}
			n.log.wantEvicted(t, patient.Key())
			if got := n.log.records(hookFailed); len(got) > 0 {
				t.Errorf("hooks that failed %v, want none", got)
			}
		})
	}
}

// runWitness starts a pod of a main container with a hook and two sidecars, which write down
// what happens to them, and waits until they all run.
func runWitness(t *testing.T, n *stack.Stack, name, hook string) *stack.Pod {
	t.Helper()
	dir := notes(n.Dir, name)
	must(t, os.MkdirAll(dir, 0o777))
	pod := sketch{
		name: name, containers: map[string]string{"main": witness("main")},
		emptyDirs: map[string]string{"data": "20Mi"}, hostDirs: map[string]string{"notes": dir},
	}.manifest()
	pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
	pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{
		Command: []string{"/bin/sh", "-c", note("the hook begins") + hook + "; " + note("the hook ends")},
	}}}
	for _, side := range []string{"early", "late"} {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{
			Name: side, Image: stack.PodImage, Command: []string{"/bin/sh", "-c", witness(side)},
			RestartPolicy: new(v1.ContainerRestartPolicyAlways), VolumeMounts: []v1.VolumeMount{{Name: "notes", MountPath: "/notes"}},
		})
	}
	p := runPod(t, n, pod)
	eventually(t, "all containers of "+name+" mind SIGTERM", func() (bool, error) {
		ready, err := filepath.Glob(filepath.Join(dir, "*.ready"))
		return len(ready) == 3, err
	})
	return p
}

// witness is a container that takes a second to leave.
func witness(name string) string {
	return fmt.Sprintf(`trap '%ssleep 1; %sexit 0' TERM; : >/notes/%s.ready; while :; do sleep 3600 & wait; done`, note(name+" is told"), note(name+" ends"), name)
}

// note writes something down.
func note(what string) string { return fmt.Sprintf(`echo "%s" >>/notes/all; `, what) }

func notes(dir, pod string) string { return filepath.Join(dir, "notes", pod) }

// testimony returns the notes of the containers of a pod in its directory, in order.
func testimony(t *testing.T, notes string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(notes, "all"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must(t, err)
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}
