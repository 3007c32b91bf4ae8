package kubernetes_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A soft victim's hook runs to its end, and its sidecar ends after its main container. A pod
// whose postStart hook is still running is ended all the same, without the kubelet.
func TestPodsEndAsTheyWant(t *testing.T) {
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	deploy(t, c, "calm", sleeper())
	leaveToEvictd(t, c, kubelet)
	// Of what all pods together may use there is no soft threshold: it is the machine's.
	available, err := crossing.Available()
	must(t, err)
	p := beside(t, c, account(t, c), map[string]any{
		"evictionHard": map[string]any{}, "evictionSoft": map[string]any{"memory.available": strconv.FormatInt(available-900<<20, 10)},
		"evictionSoftGracePeriod": map[string]any{"memory.available": "1s"}, "evictionMaxPodGracePeriod": 30,
	})
	for _, story := range []struct {
		name, lifecycle string
		want            []string
		within          time.Duration
	}{
		{"patient", `preStop: {exec: {command: [sh, -c, "echo hook begins >>/notes/all; sleep 3; echo hook ends >>/notes/all"]}}`, []string{"hook begins", "hook ends", "main is told", "main ends", "side is told", "side ends"}, 20 * time.Second},
		{"busy", `postStart: {exec: {command: [sh, -c, "sleep 60"]}}`, nil, 10 * time.Second},
	} {
		t.Run(story.name, func(t *testing.T) {
			notes := filepath.Join(c.Dir, "notes", story.name)
			must(t, os.MkdirAll(notes, 0o777))
			station, err := hog.NewStation(filepath.Join(c.Dir, "stations", story.name))
			must(t, err)
			must(t, c.Apply(t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 25
  volumes: [{name: notes, hostPath: {path: %[2]s}}, {name: station, hostPath: {path: %[3]s}}]
  initContainers:
  - {name: side, image: %[4]s, imagePullPolicy: Never, restartPolicy: Always, command: [sh, -c, %[5]q], volumeMounts: [{name: notes, mountPath: /notes}]}
  containers:
  - {name: hog, image: %[6]s, imagePullPolicy: Never, command: [/bin/hog, --mib, "1280", --exit, "143", --go, /station/go, --stamp, /station/stamps], volumeMounts: [{name: station, mountPath: /station}]}
  - {name: main, image: %[4]s, imagePullPolicy: Never, command: [sh, -c, %[7]q], lifecycle: {%[8]s}, volumeMounts: [{name: notes, mountPath: /notes}]}
`, story.name, notes, station.Dir, stack.PodImage, witness("side"), hog.Image, witness("main"), story.lifecycle)))
			must(t, station.Release(soon(t)))
			killed, err := p.Await(soon(t), func(r evictd.Record) bool { return r.Msg == "pod killed" && r.String("pod") == "default/"+story.name })
			must(t, err)
			took, _ := killed.Attrs["tookSeconds"].(float64)
			t.Logf("  killed in %v s", took)
			if took > story.within.Seconds() {
				t.Errorf("killed in %v s, want at most %s", took, story.within)
			}
			victim := awaitPod(soon(t), t, c, story.name, func(pod *v1.Pod) bool { return ended(pod) && condition(pod, v1.DisruptionTarget) != nil })
			if victim.Status.Phase != v1.PodFailed {
				t.Errorf("pod %s is %s", victim.Name, victim.Status.Phase)
			}
			raw, err := os.ReadFile(filepath.Join(notes, "all"))
			if story.want != nil {
				must(t, err)
				if got := strings.Split(strings.TrimSpace(string(raw)), "\n"); !slices.Equal(got, story.want) {
					t.Errorf("the pod saw %q, want %q", got, story.want)
				}
			}
		})
	}
	must(t, p.Stop())
}

// witness is a container that writes down its SIGTERM, and takes a second to end.
func witness(name string) string {
	return fmt.Sprintf(`trap 'echo %[1]s is told >>/notes/all; sleep 1; echo %[1]s ends >>/notes/all; exit 0' TERM; while :; do sleep 3600 & wait; done`, name)
}

// Conditions of evictd's own come with the pressure and go with it; taints too, if the
// account may write them, which a node may not.
func TestOwnConditionsAndTaints(t *testing.T) {
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	leaveToEvictd(t, c, kubelet)
	asAccount := account(t, c)
	// No disk is as empty as that, and there is no pod to evict.
	short := map[string]any{"nodeConditions": "taints", "evictionHard": map[string]any{"nodefs.available": "99.9%"}}
	roomy := map[string]any{"nodeConditions": "taints", "evictionHard": map[string]any{"nodefs.available": "1Ki"}}
	has := func(n *v1.Node) (conditioned, tainted bool) {
		return cluster.NodeCondition(n, "evictd.io/DiskPressure") == v1.ConditionTrue,
			slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool {
				return t.Key == "evictd.io/disk-pressure" && t.Effect == v1.TaintEffectNoSchedule
			})
	}
	for _, step := range []struct {
		name, kubeconfig     string
		config               map[string]any
		conditioned, tainted bool
	}{
		{"pressure, with the account", asAccount, short, true, true},
		{"no pressure, with the account", asAccount, roomy, false, false},
		{"pressure, with the node's credentials", c.KubeletKubeconfig, short, true, false},
		{"no pressure, with the node's credentials", c.KubeletKubeconfig, roomy, false, false},
	} {
		t.Run(step.name, func(t *testing.T) {
			p := beside(t, c, step.kubeconfig, step.config)
			_, err := c.AwaitNode(soon(t), func(n *v1.Node) bool {
				conditioned, tainted := has(n)
				return conditioned == step.conditioned && tainted == step.tainted
			})
			must(t, err)
			if step.conditioned && !step.tainted {
				_, err := p.Await(soon(t), func(r evictd.Record) bool {
					return r.Msg == "node conditions not written, retrying" && strings.Contains(r.String("error"), "node credentials may not")
				})
				must(t, err)
			}
			must(t, p.Stop())
		})
	}
}

// evictd is killed while it writes, or the API server is: the next evictd holds condition and taint, and removes both when
// the pressure is over.
func TestTaintsThroughKills(t *testing.T) {
	rounds := 3
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		rounds = 20
	}
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	leaveToEvictd(t, c, kubelet)
	rights := account(t, c)
	runDir := filepath.Join(c.Dir, "evictd-run")
	config := func(hard string) map[string]any {
		return map[string]any{"nodeConditions": "taints", "runDir": runDir, "evictionHard": map[string]any{"nodefs.available": hard}}
	}
	const short, roomy = "99.9%", "1Ki"
	has := func(want bool) {
		t.Helper()
		_, err := c.AwaitNode(soon(t), func(n *v1.Node) bool {
			tainted := slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == "evictd.io/disk-pressure" })
			return want == tainted && want == (cluster.NodeCondition(n, "evictd.io/DiskPressure") == v1.ConditionTrue)
		})
		must(t, err)
	}
	for round := range rounds {
		p := beside(t, c, rights, config(short))
		if round%3 == 1 {
			must(t, c.KillPart(soon(t), "kube-apiserver"))
		}
		must(t, stack.Pause(t.Context(), rand.N(300*time.Millisecond)))
		p.Kill()
		if round%3 == 1 {
			must(t, c.StartPart(soon(t), "kube-apiserver"))
		}
		p = beside(t, c, rights, config(short))
		has(true)
		if round%3 == 2 {
			must(t, c.RestartPart(soon(t), "kubelet")) // which writes the Node again
			has(true)
		}
		p.Kill()
		p = beside(t, c, rights, config(roomy))
		has(false)
		must(t, p.Stop())
	}
}
