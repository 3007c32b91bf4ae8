package loop

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

// hanging never ranks until its context ends.
type hanging struct{}

func (hanging) Rank(ctx context.Context, _ eviction.RankRequest) ([]eviction.Ranked, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// With shadows that agree, differ, fail and hang the same pod goes at the same moment as
// without, and their choices are reported.
func TestShadowsChangeNothing(t *testing.T) {
	var stories [2][]string
	for at, shadows := range []bool{false, true} {
		story(t, func(t *testing.T, n *node) {
			if shadows {
				n.plugins.addRanker("shadow-agrees", ranks("uid-another", "uid-big", "uid-small"))
				n.plugins.addRanker("shadow-differs", ranks("uid-small", "uid-big"))
				n.plugins.addRanker("shadow-spares", ranks())
				n.plugins.addRanker("shadow-fails", func(eviction.RankRequest) ([]eviction.Ranked, error) { return nil, eviction.ErrUnavailable })
				n.plugins.addRanker("shadow-hangs", nil)
				n.plugins.custom[len(n.plugins.custom)-1].Plugin.Ranker = hanging{}
			}
			n.start(settings(t, hard("1Gi")))
			n.memory.falls(gi / 2)
			n.after(3 * time.Second)
			stories[at] = slices.Clone(n.did.story())
			if e := n.loop.Snapshot().Evictions; len(e) != 1 || e[0].Pod != "default/big" || e[0].Ranker != "memory" {
				t.Errorf("evictions %+v, want default/big by memory", e)
			}
			if len(n.plugins.custom) > 0 { // the one that hangs keeps the others' answers back, and nothing else
				n.plugins.custom = n.plugins.custom[:4]
			}
			n.runtime.addPod("another", 3*gi)
			n.memory.falls(gi / 2)
			n.after(3 * time.Second)
			var want []ShadowStatus
			if shadows {
				want = []ShadowStatus{
					{Plugin: "shadow-agrees", Signal: eviction.MemoryAvailable, Agreed: 1},
					{Plugin: "shadow-differs", Signal: eviction.MemoryAvailable, Differed: 1},
					{Plugin: "shadow-fails", Signal: eviction.MemoryAvailable, Failed: 1},
					{Plugin: "shadow-spares", Signal: eviction.MemoryAvailable, Differed: 1},
				}
			}
			if diff := cmp.Diff(want, n.loop.Snapshot().Shadows); diff != "" {
				t.Errorf("shadows (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(stories[0], stories[1]); diff != "" {
		t.Errorf("what was done without and with shadows (-without +with):\n%s", diff)
	}
}
