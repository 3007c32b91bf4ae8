package memory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/memorynode"
)

// hugePagesCase is a case of testdata/hugepages.json: the figures that a kubelet of v1.37.2 computes
// on a node with huge pages.
type hugePagesCase struct {
	Name         string
	NodeCapacity map[string]string
	FeatureGates map[string]bool
	RootCgroup   struct{ AvailableBytes, WorkingSetBytes *int64 }
	Memory       *struct{ AvailableBytes, CapacityBytes int64 }
}

func hugePagesCases(t *testing.T) []hugePagesCase {
	t.Helper()
	text := testos.ReadFile(t, "testdata/hugepages.json")
	var file struct{ Cases []hugePagesCase }
	if err := json.Unmarshal(text, &file); err != nil || len(file.Cases) < 11 {
		t.Fatalf("%d cases: %v", len(file.Cases), err)
	}
	return file.Cases
}

// pool returns the node's huge pages in bytes.
func (c *hugePagesCase) pool(t *testing.T) (bytes int64) {
	t.Helper()
	for name, text := range c.NodeCapacity {
		if !strings.HasPrefix(name, "hugepages-") || text == "0" {
			continue
		}
		var size int64
		var unit string
		if _, err := fmt.Sscanf(text, "%d%s", &size, &unit); err != nil {
			t.Fatalf("%s: %q: %v", name, text, err)
		}
		bytes += size << map[string]int{"Mi": 20, "Gi": 30}[unit]
	}
	return bytes
}

func (c *hugePagesCase) check(t *testing.T, o eviction.Observation) {
	t.Helper()
	switch {
	case c.Memory == nil:
		if o.State != eviction.Absent {
			t.Errorf("%+v, want no figure", o)
		}
	case o.State != eviction.Observed || o.Available != c.Memory.AvailableBytes || o.Capacity != c.Memory.CapacityBytes:
		t.Errorf("%d of %d (%s), want %d of %d", o.Available, o.Capacity, o.Err, c.Memory.AvailableBytes, c.Memory.CapacityBytes)
	}
}

// Huge pages counted as available, as in the kubelet until v1.36.
func TestHugePagesAreExcludedAsInTheKubelet(t *testing.T) {
	for _, c := range hugePagesCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			n := memorynode.New(t)
			workingSet, gate := *c.RootCgroup.WorkingSetBytes, true
			if on, set := c.FeatureGates["HugepageAwareEviction"]; set {
				gate = on
			}
			facts := n.Facts()
			facts.ExcludeHugePages = gate
			if available := c.RootCgroup.AvailableBytes; available != nil {
				writeTree(t, n.Root, map[string]string{"proc/meminfo": fmt.Sprintf("MemTotal: %d kB\nHugetlb: %d kB\n", (*available+workingSet)>>10, c.pool(t)>>10)})
				n.UseBytes(workingSet)
				c.check(t, observeBoth(t, configured(t, facts))[0])
			}
		})
	}
}
