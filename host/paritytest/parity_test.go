package paritytest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/paritytest/embedded"
	"github.com/evictd/evictd/host/paritytest/generate"
)

// mostDifferences end a run: one mistake shows in many scenarios.
const mostDifferences = 10

// evictd decides what the kubelet decides, or may decide where it leaves things
// to chance, in any scenario.
func TestParity(t *testing.T) {
	c := comparison{t: t, rules: tally{}, quirks: tally{}}
	end := time.Now().Add(*duration)
	var seeds atomic.Int64
	var workers sync.WaitGroup
	for range 4 * runtime.NumCPU() { // a pass waits more than it works
		workers.Go(func() {
			for time.Now().Before(end) && !c.enough() {
				c.compare(*firstSeed + seeds.Add(1) - 1)
			}
		})
	}
	workers.Wait()
	t.Logf("parity: %d scenarios from seed %d, %d passes, %d pods evicted; %d differences\n"+
		"scenarios with accidents of the kubelet, which need not be reproduced:\n%s"+
		"scenarios by rule (section of docs/parity/kubelet-behaviour.md):\n%s",
		c.scenarios, *firstSeed, c.passes, c.evicted, c.differences, c.quirks, c.rules)
}

// comparison collects the results of many scenarios.
type comparison struct {
	t  *testing.T
	mu sync.Mutex

	rules                                   tally
	scenarios, passes, evicted, differences int
	// quirks are those with accidents, and whether they were decided alike.
	quirks tally
}

func (c *comparison) enough() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.differences >= mostDifferences || c.t.Context().Err() != nil
}

func (c *comparison) compare(seed int64) {
	s := generate.Scenario(seed)
	ours, difference, want, err := judge(c.t, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.differences++
		c.t.Errorf("seed %d: %v", seed, err)
	case len(s.Quirks) > 0:
		how := ", decided alike"
		if difference != nil {
			how = ", decided otherwise"
		}
		c.quirks.add([]string{strings.Join(s.Quirks, " and ") + how})
	case difference != nil:
		c.differences++
		c.t.Errorf("seed %d: %s", seed, report(s, ours.Decisions, want, difference))
	default:
		c.scenarios++
		c.passes += len(want.Steps)
		for _, step := range want.Steps {
			c.evicted += len(step.Outcomes[0].Evictions)
		}
		c.rules.add(rulesOf(s, ours, want))
	}
}

// judge has evictd decide s and returns where the kubelet would not.
func judge(t *testing.T, s *replay.Scenario) (*replay.Replay, *replay.Difference, *replay.Decisions, error) {
	ours, err := embedded.Replay(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, nil, err
	}
	difference, want, err := theKubelet.Judge(t.Context(), s, ours)
	return ours, difference, want, err
}

// report tells a difference in a few lines and puts the scenario, with what the
// kubelet decided, into a file that evictctl replay reads.
func report(s *replay.Scenario, got, want *replay.Decisions, d *replay.Difference) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: got is evictd's, recorded the kubelet's\n", d)
	if d.Step >= 0 && d.Step < len(want.Steps) && d.Step < len(got.Steps) {
		fmt.Fprintf(&b, "  evictd:  %s\n", brief(got.Steps[d.Step]))
		fmt.Fprintf(&b, "  kubelet: %s\n", brief(want.Steps[d.Step]))
	}
	file := filepath.Join(*directory, s.Name+".json")
	data, err := json.MarshalIndent(replay.Trace{Scenario: s, Decisions: want}, "", " ")
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		return b.String() + "  " + err.Error()
	}
	return b.String() + "  to look at it: evictctl replay " + file
}

// brief is a step's decision in one line.
func brief(d replay.StepDecision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "conditions %v", d.NodeConditions)
	if d.Error != "" {
		fmt.Fprintf(&b, ", error %q", d.Error)
	}
	for i, o := range d.Outcomes {
		if i == 3 {
			fmt.Fprintf(&b, " or %d more", len(d.Outcomes)-i)
			break
		}
		fmt.Fprintf(&b, "; %v reclaim %v", o.Signals, o.ReclaimCalls)
		for _, e := range o.Evictions {
			fmt.Fprintf(&b, ", evict %s grace %ds %q", e.Name, e.GracePeriodSeconds, e.Message)
		}
		if o.Panic != "" {
			fmt.Fprintf(&b, ", panic %q", o.Panic)
		}
	}
	return b.String()
}
