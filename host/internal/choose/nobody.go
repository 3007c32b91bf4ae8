package choose

import (
	"fmt"
	"strings"

	"github.com/evictd/evictd/host/internal/policy"
)

// WhyNobody says why none of the active pods can be evicted. ending reports whether a
// pod is a victim already.
func (c *Choice) WhyNobody(ending func(uid string) bool) string {
	var unmanaged, critical, going, spared int
	for _, p := range c.Snapshot.Pods {
		switch {
		case !p.HasManifest:
			unmanaged++
		case !policy.Evictable(p.API):
			critical++
		case ending(p.Row.UID):
			going++
		default:
			spared++
		}
	}
	var reasons []string
	for _, r := range []struct {
		count int
		text  string
	}{
		{unmanaged, "without a manifest"}, {critical, "critical or static"}, {going, "being evicted"}, {spared, "left out by the ranker"},
	} {
		if r.count > 0 {
			reasons = append(reasons, fmt.Sprintf("%d %s", r.count, r.text))
		}
	}
	if len(reasons) == 0 {
		return "no pod is active"
	}
	return strings.Join(reasons, ", ")
}
