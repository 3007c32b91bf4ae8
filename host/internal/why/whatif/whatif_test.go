package whatif

import (
	"errors"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

const gibibyte = 1 << 30

// soft returns an eviction for a soft threshold.
func soft(t *testing.T) *decision.Decision {
	t.Helper()
	data := testos.ReadFile(t, "../../core/decision/testdata/soft.json")
	r, err := decision.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWhatWouldHaveSparedAPodIsExactToOneStep(t *testing.T) {
	r := soft(t)
	d, err := Again(r)
	if err != nil || d.Acted != 1 || len(d.Order) != 2 || d.Order[0] != 1 {
		t.Fatalf("made again: %+v, %v", d, err)
	}
	found, err := Changes(r)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Change{
		Priority: {Priority, "", 1001, 1, "shop/web"},
	}
	for _, f := range found {
		if want[f.What] != f {
			t.Errorf("%+v, want %+v", f, want[f.What])
		}
		delete(want, f.What)
	}
	if len(want) > 0 {
		t.Errorf("not told: %+v", want)
	}
}

// Another request would have been the ranker's to judge; another threshold holds for one pass.
func TestACustomRankersOrderHasNoCounterfactual(t *testing.T) {
	r := soft(t)
	r.Ranker = &decision.Ranker{Name: "oldest", Custom: true}
	if found, err := Changes(r); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestAPodThatIsAloneIsSparedByNothing(t *testing.T) {
	r := soft(t)
	r.Candidates, r.Order = r.Candidates[1:], []int{0}
	found, err := Changes(r)
	if err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}

// What was prolonged by a minimum reclaim is spared by a smaller one.
func TestAThresholdThatWasProlonged(t *testing.T) {
	r := soft(t)
	r.Thresholds[1].MinReclaim, r.Thresholds[1].Since = "500Mi", new(r.Now.Add(-time.Minute))
	r.Observations[0].Available = 1100 << 20
	found, err := Changes(r)
	if err != nil || found[len(found)-1] != (Change{MinReclaim, "memory.available", 76 << 20, -1, ""}) {
		t.Errorf("%+v, %v", found, err)
	}
}

// A record of another victim than what is recorded tells nothing of what would have spared it.
func TestAnotherVictimHasNoCounterfactual(t *testing.T) {
	r := soft(t)
	r.Candidates = append(r.Candidates, decision.Candidate{UID: "cache-1", Pod: "shop/cache", QoS: eviction.BestEffort, Usage: 4 * gibibyte})
	if found, err := Changes(r); len(found) > 0 || !errors.Is(err, ErrAnotherVictim) {
		t.Errorf("%+v, %v", found, err)
	}
}
