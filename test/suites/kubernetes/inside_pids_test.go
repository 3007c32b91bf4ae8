package kubernetes_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
	"github.com/evictd/evictd/test/suites/kubernetes/record"
)

// The pod that takes most process ids of a node that is short of them is evicted by a kubelet with evictd inside as by the
// unmodified one.
func TestInsideAKubeletPodsWithManyProcessesAreEvicted(t *testing.T) {
	requireNightly(t)
	const forks = 2000
	hard := cluster.CalmThresholds()
	hard["pid.available"] = strconv.Itoa(tasksAvailable(t) - forks*3/5)
	keys := map[string]any{"evictionHard": hard, "evictionPressureTransitionPeriod": "1s"}
	c := start(t, cluster.Options{})
	pods := begin(t, c)
	allowed := append([]record.Allowed{{Path: "events[*].message", Sometimes: true, Why: "numbers of process ids"}}, insideBut...)
	asTheKubelet(t, c, keys, allowed, func(by string) map[string]record.Fields {
		few, many := "few-"+by, "many-"+by
		must(t, c.Apply(soon(t), barePod(few, forking(20))+"---"+barePod(many, forking(forks))))
		spared := pods.awaitWaiting(t, few)
		victim := pods.await(t, many, "is evicted and has ended", func(l life) bool { return endedWithReason(l.Pod) }).Pod
		awaitEvent(soon(t), t, c, victim, "Evicted")
		if s := victim.Status; s.Reason != "Evicted" || !strings.HasPrefix(s.Message, "The node was low on resource: pids. ") {
			t.Errorf("%s: %q, %q; want Evicted, low on pids", many, s.Reason, s.Message)
		}
		t.Logf("  %s is evicted: %s", many, victim.Status.Message)
		disrupted(t, victim)
		unharmed(t, c, spared)
		fields, err := record.Take(soon(t), c.Client, victim)
		must(t, err)
		_, err = c.Kubectl(soon(t), "", "delete", "pod", "--wait", few, many)
		must(t, err)
		return map[string]record.Fields{"pids": fields}
	})
}

// forking is the spec of a pod with so many processes.
func forking(processes int) string {
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, containers: [
      {name: main, image: %s, imagePullPolicy: Never,
       command: [sh, -c, "i=0; while [ $i -lt %d ]; do sleep 100000 & i=$((i+1)); done; wait"]}]}`, stack.PodImage, processes)
}

func tasksAvailable(t *testing.T) int {
	t.Helper()
	n, err := crossing.TasksAvailable()
	must(t, err)
	return n
}
