package e2e_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

const (
	forks     = 2500
	forkLimit = 2600
)

// A pod with thousands of processes, within its limit of them, is what a node
// that is short of process ids evicts, and neither the more important one nor the
// one with fewer.
func TestForkHappyPod(t *testing.T) {
	n := newSite(t, stack.Options{})
	pods := map[string]*stack.Pod{
		"steady":     run(t, n.Stack, sketch{name: "steady"}),
		"important":  run(t, n.Stack, sketch{name: "important", priority: 1000}),
		"fork-happy": run(t, n.Stack, sketch{name: "fork-happy"}),
		"busy":       run(t, n.Stack, sketch{name: "busy", request: "1Gi"}),
	}
	fork := func(name string, processes int) {
		t.Helper()
		must(t, pods[name].LimitProcesses(forkLimit))
		must(t, pods[name].Exec(t.Context(), "main", fmt.Sprintf(
			"i=0; while [ $i -lt %d ]; do sleep 100000 <>/dev/null >&0 2>&0 & i=$((i+1)); done", processes)))
	}
	fork("steady", 20)
	fork("busy", 100)
	fork("important", 300)
	available := tasksAvailable(t)
	threshold := available - forks*3/5
	fork("fork-happy", forks) // all of them are there before evictd looks
	t.Logf("  pid.available: %d, before fork-happy made %d processes %d; threshold %d", tasksAvailable(t), forks, available, threshold)
	n.start(t, map[string]any{"evictionHard": map[string]string{"pid.available": strconv.Itoa(threshold)}})
	n.log.awaitVictim(t, "pid.available", "fork-happy", pods)
	if left := pods["fork-happy"].ContainerProcesses("main"); len(left) > 0 {
		t.Errorf("fork-happy still has %d processes", len(left))
	}
	t.Logf("    pid.available is %d again", tasksAvailable(t))
}

func tasksAvailable(t *testing.T) int {
	t.Helper()
	n, err := crossing.TasksAvailable()
	must(t, err)
	return n
}
