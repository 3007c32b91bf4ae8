package loop

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// The ranking of now is served while nothing is short, again and again, and evicts no pod.
func TestARankingOfNowEvictsNoPod(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.start(settings(t, hard("1Gi")))
		for range 3 {
			d, err := Ranking(t.Context(), n.loop, eviction.MemoryAvailable)
			if err != nil || len(d.Order) != 2 || d.Candidates[d.Order[0]].UID != "uid-big" || d.Acted() == nil || d.Acted().Since != nil {
				t.Errorf("%+v, %v; want big before small, for a threshold that is not met", d, err)
			}
		}
		if _, err := Ranking(t.Context(), n.loop, eviction.PIDAvailable); !errors.Is(err, ErrNoThreshold) || !strings.HasSuffix(err.Error(), `"pid.available", want one of memory.available`) {
			t.Errorf("of a signal without a threshold: %v, want those that have one", err)
		}
		n.after(time.Minute)
		if e := n.loop.Snapshot().Evictions; len(e) > 0 {
			t.Errorf("%s was evicted", e[0].Pod)
		}
		n.memory.falls(gi / 2)
		n.after(3 * time.Second)
		d, err := Ranking(t.Context(), n.loop, eviction.MemoryAvailable)
		if err != nil || len(d.Order) != 1 || d.Candidates[d.Order[0]].UID != "uid-small" {
			t.Errorf("after an eviction: %+v, %v; want small alone", d, err)
		}
	})
}
