package loop

import (
	"testing"

	"github.com/evictd/evictd/host/internal/choose"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/eviction"
)

// Nobody can request inodes. What was shown as such a request was bytes.
func TestARequestIsInTheUnitOfItsSignal(t *testing.T) {
	row := eviction.Pod{UID: "a", MemoryRequestBytes: 7 * mi, EphemeralStorageRequestBytes: 100 * mi}
	for s, want := range map[eviction.Signal][2]int64{
		eviction.MemoryAvailable:       {7 * mi, 0},
		eviction.NodeFsAvailable:       {100 * mi, 0},
		eviction.NodeFsInodesFree:      {0, 100 * mi},
		eviction.ContainerFsInodesFree: {0, 100 * mi},
		eviction.PIDAvailable:          {0, 0},
		"acme.example/nvme.spare":      {0, 0},
	} {
		got := rankedPods(&choose.Choice{Candidates: []pods.Pod{{Row: row}}, Order: []eviction.Ranked{{UID: "a"}}}, s)
		if got[0].Request != want[0] || got[0].LessBytes != want[1] {
			t.Errorf("%s: request %d less %d bytes, want %v", s, got[0].Request, got[0].LessBytes, want)
		}
	}
}
