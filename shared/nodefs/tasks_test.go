package nodefs

import (
	"fmt"
	"strings"
	"testing"
)

// The processes of cgroups beyond the first thousand were left out without a word.
func TestProcessesThatAreNotListedAreAnError(t *testing.T) {
	h, _ := manyPods(t, 0)
	root := strings.TrimSuffix(h.Path("/"), "/")
	write(t, root, "c1/cgroup.procs", "7\n")
	for i := range maxCgroupsBelow {
		write(t, root, fmt.Sprintf("c1/%04d/cgroup.procs", i), "")
	}
	if pids, err := h.Processes("/c1"); len(pids) != 1 || err != nil {
		t.Errorf("%v, %v, want one process", pids, err)
	}
	write(t, root, "c1/more/cgroup.procs", "8\n")
	if pids, err := h.Processes("/c1"); len(pids) == 0 || pids[0] != 7 || err == nil || !strings.Contains(err.Error(), "more than 1000 cgroups") {
		t.Errorf("%v, %v, want those of the first and an error", pids, err)
	}
}
