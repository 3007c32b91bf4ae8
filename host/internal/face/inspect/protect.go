package inspect

import (
	"context"
	"fmt"
	"strings"

	"github.com/evictd/evictd/host/internal/ground/systemd"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// tryProtection finds services on the path of an eviction that may lose their pages on a node that
// thrashes.
func tryProtection(ctx context.Context, n *node, f *Findings) {
	plan, err := systemd.Plan(ctx, n.fs, n.c.RuntimeEndpoint)
	if err != nil { // systemd cannot protect here, or another probe reports the runtime
		return
	}
	var short []string
	for _, u := range plan {
		if u.NowBytes < min(u.UsedBytes, u.WantBytes) {
			short = append(short, fmt.Sprintf("%s %d of %d MiB", u.Name(), u.NowBytes>>20, u.UsedBytes>>20))
		}
	}
	if len(short) > 0 {
		f.add(Advice, "memory.min protects too little (%s): on a node that thrashes their pages go, and the kernel may kill first; evictd protect-node shows drop-ins of systemd, --write writes them", strings.Join(short, ", "))
	}
}

// tryProtectedCache finds a threshold that protected page cache keeps from being met.
func tryProtectedCache(_ context.Context, n *node, f *Findings) {
	memory, err := n.fs.ReadNodeMemory(nodefs.MemoryRules{})
	h, _ := n.fs.MemoryHierarchy()
	if err != nil { // another probe reports that
		return
	}
	cache := nodefs.ProtectedCache(h, "/", memory.LimitBytes)
	for _, t := range n.thresholds {
		if value := t.Value.Of(memory.LimitBytes); t.Signal == eviction.MemoryAvailable && t.Hard() && value.CmpInt64(cache) < 0 {
			f.add(Warning, "evictionHard[%q]: %q: memory.min of cgroups protects %d MiB of page cache, which count as available and are not reclaimed: the threshold may never be met; want more than %dMi", t.Signal, t.Value, cache>>20, cache>>20)
		}
	}
}
