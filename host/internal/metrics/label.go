package metrics

import (
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// other stands for every value that is not known or comes too late.
	other = "other"
	// maxNames is more plugins or signals than a node has.
	maxNames = 64
	// maxNameBytes keeps one series from becoming large.
	maxNameBytes = 253
)

// The values of the labels that are not names.
var (
	triggers = []string{"interval", "wake", "request"}
	calls    = append([]string{"describe", "configure"}, eviction.AllCapabilities().Names()...)
)

func oneOf(value string, known []string) string {
	if slices.Contains(known, value) {
		return value
	}
	return other
}

// names lets the first few values of a label pass and folds the rest into one:
// plugins choose their names, and a series lives as long as the process.
type names struct {
	mu   sync.Mutex
	seen map[string]bool
}

func bounded() *names { return &names{seen: map[string]bool{}} }

func (n *names) of(name string) string {
	// Prometheus panics on a label that is not UTF-8.
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) {
		return other
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen[name] {
		return name
	}
	if len(n.seen) >= maxNames {
		return other
	}
	n.seen[name] = true
	return name
}
