package metrics

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// counted matches a counter in the expression of an alert: name and labels.
var counted = regexp.MustCompile(`(?:increase|rate)\(([a-z_]+)(?:\{([^}]*)\})?\[`)

// An increase leaves out the first value of a series: one that came with the first failed kill,
// restart or eviction raised no alert.
func TestAlertsSeeTheFirstEvent(t *testing.T) {
	text := testos.ReadFile(t, "../../../../deploy/chart/files/alerts.yaml")
	m := New("v1", "abc")
	m.KernelKilled("node", 0)                     // where kills are looked for
	m.PluginUp("memory", false)                   // before its first start
	m.Unobserved(eviction.MemoryAvailable, false) // by the first pass
	series := strings.Split(scrape(t, m), "\n")
	found := counted.FindAllStringSubmatch(string(text), -1)
	if all := strings.Count(string(text), "increase(") + strings.Count(string(text), "rate("); len(found) != all || all == 0 {
		t.Errorf("%d increases and rates are looked at, want %d", len(found), all)
	}
	for _, f := range found {
		at0 := func(s string) bool {
			name, _, _ := strings.Cut(strings.TrimSuffix(s, " 0"), "{")
			return name == f[1] && strings.HasSuffix(s, " 0") && !slices.ContainsFunc(strings.Split(f[2], ","), func(label string) bool {
				return label != `job="evictd"` && !strings.Contains(s, label)
			})
		}
		if !slices.ContainsFunc(series, at0) {
			t.Errorf("%s{%s} has no series at 0 before the first event", f[1], f[2])
		}
	}
}
