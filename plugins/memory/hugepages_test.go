package memory

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/evictd/evictd/sdk/summary/summarytest"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/harness/testos"
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

func (c *hugePagesCase) check(t *testing.T, source string, o eviction.Observation) {
	t.Helper()
	switch {
	case c.Memory == nil:
		if o.State != eviction.Absent {
			t.Errorf("%s: %+v, want no figure", source, o)
		}
	case o.State != eviction.Observed || o.Available != c.Memory.AvailableBytes || o.Capacity != c.Memory.CapacityBytes:
		t.Errorf("%s: %d of %d (%s), want %d of %d", source, o.Available, o.Capacity, o.Err, c.Memory.AvailableBytes, c.Memory.CapacityBytes)
	}
}

// Huge pages counted as available, as in the kubelet until v1.36.
func TestHugePagesAreExcludedAsInTheKubelet(t *testing.T) {
	for _, c := range hugePagesCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			n := newFakeNode(t)
			workingSet, gate := *c.RootCgroup.WorkingSetBytes, true
			if on, set := c.FeatureGates["HugepageAwareEviction"]; set {
				gate = on
			}
			facts := n.facts()
			facts.ExcludeHugePages, facts.SummaryHasHugePages = gate, true
			measured := fmt.Sprintf(`{"node":{"memory":{"workingSetBytes":%d}}}`, workingSet)
			if available := c.RootCgroup.AvailableBytes; available != nil {
				measured = memorySummary(*available, workingSet)
				writeTree(t, n.root, map[string]string{"proc/meminfo": fmt.Sprintf("MemTotal: %d kB\nHugetlb: %d kB\n", (*available+workingSet)>>10, c.pool(t)>>10)})
				n.useBytes(workingSet)
				c.check(t, "native", observeBoth(t, configured(t, facts))[0])
			}
			facts.SummarySocket = serve(t, measured)
			c.check(t, "summary of v1.36", observeBoth(t, configured(t, facts))[0])
			if c.Memory != nil {
				facts.SummarySocket, facts.SummaryHasHugePages = serve(t, memorySummary(c.Memory.AvailableBytes, workingSet)), false
				c.check(t, "summary of v1.37", observeBoth(t, configured(t, facts))[0])
			}
		})
	}
}

func memorySummary(available, workingSet int64) string {
	return fmt.Sprintf(`{"node":{"memory":{"availableBytes":%d,"workingSetBytes":%d}}}`, available, workingSet)
}

func serve(t *testing.T, text string) (socket string) {
	t.Helper()
	return summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer { return summarytest.Answer{Summary: text} })
}

// The memory must not look available while the size of the pool is unknown.
func TestWithoutThePoolASummarysMemoryIsUnknown(t *testing.T) {
	n := newFakeNode(t)
	facts := n.facts()
	facts.SummarySocket, facts.ExcludeHugePages, facts.SummaryHasHugePages = serve(t, summaryOfNode), true, true
	p := configured(t, facts)
	writeTree(t, n.root, map[string]string{"proc/meminfo": "MemTotal: 1024000 kB\nHugetlb: many\n"})
	if o := observeBoth(t, p)[0]; o.State != eviction.Unknown || !strings.Contains(o.Err, "Hugetlb") {
		t.Errorf("%+v, want an unknown figure because of Hugetlb", o)
	}
}
