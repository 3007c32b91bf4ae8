package choose_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A teller closes a channel when it is asked to measure, and notes the pods of each call.
type teller struct {
	*plugin

	asked chan struct{}
	calls []string
}

func (m *teller) Measure(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	var uids []string
	for _, p := range r.Pods {
		uids = append(uids, p.UID)
	}
	if m.calls = append(m.calls, strings.Join(uids, " ")); len(m.calls) == 1 {
		close(m.asked)
	}
	return m.plugin.Measure(ctx, r, emit)
}

// Listing and measuring took one after the other what they take together.
func TestPodsOfTheLastListingAreMeasuredDuringTheNext(t *testing.T) {
	for name, c := range map[string]struct {
		slow   time.Duration // the listing
		change func(n *node)
		order  string
		calls  string // with the last one, for the message
	}{
		"nothing has changed":        {0, func(*node) {}, "memory: b 7, a 1", "a b; b"},
		"a new pod":                  {0, func(n *node) { n.add("c") }, "memory: c 9, b 7, a 1", "a b; c; c"},
		"a pod that is gone":         {0, func(n *node) { n.pods = n.pods[:1] }, "memory: a 1", "a b; a"},
		"a pod with another request": {0, func(n *node) { n.pods[1].Row.MemoryRequestBytes = 8 }, "memory: a 1, b 7", "a b; b; a"},
		"a slow runtime":             {900 * time.Millisecond, func(*node) {}, "memory: b 7, a 1", "a b; b"},
		"a listing that takes long":  {1100 * time.Millisecond, func(*node) {}, "memory: b 7, a 1", "a b; a b; b"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nil, "a", "b")
				m := &teller{plugin: &plugin{name: "memory", uses: map[string]int64{"a": 1, "b": 7, "c": 9}}, asked: make(chan struct{})}
				n.start(m.plugin, eviction.CanMeasure|eviction.CanRank)
				n.plugins[0].Plugin.Measurer = m
				if _, err := n.chooser.List(t.Context()); err != nil {
					t.Fatal(err)
				}
				n.pods = slices.Clone(n.pods)
				c.change(n)
				n.early, n.awaits = true, func() { <-m.asked; time.Sleep(c.slow) }
				if _, got := n.choice(t, false); got != c.order || strings.Join(m.calls, "; ") != c.calls {
					t.Errorf("%s after measuring %q, want %s after %q", got, m.calls, c.order, c.calls)
				}
			})
		})
	}
}

// A plugin that hangs was asked twice, and each time until its deadline.
func TestAPluginThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, host{&plugin{uses: map[string]int64{"a": 1, "b": 7}}}, "a", "b")
		m := &teller{plugin: &plugin{name: "memory", fails: eviction.ErrUnavailable}, asked: make(chan struct{})}
		n.start(m.plugin, eviction.CanMeasure)
		n.plugins[0].Plugin.Measurer = m
		if _, err := n.chooser.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.early = true
		if _, got := n.choice(t, false); got != "evictd: b 7, a 1" || m.calls[0] != "a b" || slices.Contains(m.calls[1:], "a b") {
			t.Errorf("%s after asking for %q, want the host's figures after one call for all pods", got, m.calls)
		}
	})
}

// A combined plugin measures and ranks in one call.
type combined struct{ *plugin }

// MeasureAndRank implements eviction.MeasureRanker.
func (c combined) MeasureAndRank(ctx context.Context, req eviction.MeasureRequest, rank eviction.RankRequest, emit func(eviction.Measurement)) (eviction.Ranking, error) {
	if err := c.Measure(ctx, req, func(m eviction.Measurement) {
		for i := range req.Pods {
			if req.Pods[i].UID == m.UID {
				rank.Candidates = append(rank.Candidates, eviction.Candidate{Pod: req.Pods[i], Measurement: m})
			}
		}
		emit(m)
	}); err != nil || len(rank.Candidates) < len(req.Pods) {
		return eviction.Ranking{}, err
	}
	order, err := c.Rank(ctx, rank)
	return eviction.Ranking{Order: order, Err: err}, nil
}

// Whatever changes between two listings, the choice is that without the first of them.
func TestTheChoiceIsThatOfTheListingItself(t *testing.T) {
	for round := range rounds() {
		r := rand.New(rand.NewPCG(uint64(round), 1))
		n, uses := newNode(t, nil), map[string]int64{}
		for i := range 1 + r.IntN(6) {
			uid := fmt.Sprint("pod", i)
			n.add(uid)
			uses[uid] = r.Int64N(4)
		}
		p := &plugin{name: "memory", uses: uses}
		n.start(p, eviction.CanMeasure|eviction.CanRank)
		n.plugins[0].Plugin.Measurer = combined{p}
		if _, err := n.chooser.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.pods = slices.Clone(n.pods)
		for range r.IntN(4) {
			i := r.IntN(len(n.pods))
			switch pod := &n.pods[i]; r.IntN(6) {
			case 0:
				pod.Row.Priority = r.Int32N(3)
			case 1:
				pod.Row.MemoryRequestBytes = r.Int64N(4)
			case 2:
				n.add(fmt.Sprint("new", len(n.pods)))
			case 3:
				if len(n.pods) > 1 {
					n.pods = slices.Delete(n.pods, i, i+1)
				}
			case 4:
				r.Shuffle(len(n.pods), func(i, j int) { n.pods[i], n.pods[j] = n.pods[j], n.pods[i] })
			default:
				n.ending[pod.Row.UID] = true
			}
		}
		n.early = true
		_, got := n.choice(t, false)
		n.early = false
		if _, want := n.choice(t, false); got != want {
			t.Fatalf("round %d: %s with figures of the last listing's pods, %s without", round, got, want)
		}
	}
}
