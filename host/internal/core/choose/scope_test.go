package choose_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

const scratch eviction.Signal = "acme.example/scratch"

// A ranking is the answer of a ranker, which leaves out pods that it was not asked about.
type ranking struct {
	order   []eviction.Ranked
	refuses error
}

func (r ranking) Rank(_ context.Context, q eviction.RankRequest) (order []eviction.Ranked, err error) {
	for _, one := range r.order {
		if slices.ContainsFunc(q.Candidates, func(c eviction.Candidate) bool { return c.Pod.UID == one.UID }) {
			order = append(order, one)
		}
	}
	return order, r.refuses
}

// by returns the answer "a b=1 c=1": pods with their ties.
func by(text string) (r ranking) {
	for word := range strings.FieldsSeq(text) {
		one := eviction.Ranked{}
		if n, _ := fmt.Sscanf(strings.Replace(word, "=", " ", 1), "%s %d", &one.UID, &one.Tie); n > 0 {
			r.order = append(r.order, one)
		}
	}
	return r
}

// scoped returns the choice for a custom signal with rankers, the first in charge.
func (n *node) scoped(t *testing.T, scope eviction.CandidateScope, veto bool, rankers ...ranking) (choose.Choice, string) {
	t.Helper()
	spec := eviction.SignalSpec{Signal: scratch, Definition: &eviction.Definition{
		Unit: eviction.UnitBytes, Format: eviction.FormatBinarySI, Resource: string(scratch), Condition: "acme.example/ScratchPressure", Candidates: scope,
	}}
	var plugins []registry.Plugin
	for i, r := range rankers {
		p := &eviction.Plugin{Name: fmt.Sprint("ranker-", i), Ranker: r, Signals: []eviction.SignalSpec{spec}}
		plugins = append(plugins, registry.Plugin{Name: p.Name, Instance: &registry.Instance{Name: p.Name, Plugin: p}, Said: p})
	}
	current := registry.NewCurrent()
	current.Publish(registry.New(plugins, nil))
	pin := current.Pin()
	defer pin.Release()
	value, err := policy.ParseValue("1Gi")
	if err != nil {
		t.Fatal(err)
	}
	c := n.chooser.Choose(t.Context(), pin, choose.Request{
		Threshold: policy.Threshold{Signal: scratch, Value: value, Custom: spec.Definition}, At: eviction.PassView{Pass: 1, View: eviction.ViewBefore},
		Ending: func(string) bool { return false }, Veto: veto, List: n.chooser.List,
	})
	var uids []string
	for _, r := range c.Order {
		uids = append(uids, r.UID)
	}
	return c, strings.Join(uids, " ")
}

func TestOnlyRankedPodsGoIfTheSignalSaysSo(t *testing.T) {
	failing := ranking{refuses: eviction.ErrRefused}
	for name, c := range map[string]struct {
		rankers []ranking
		want    string
		why     string
	}{
		"those that it names":                      {[]ranking{by("b")}, "b", ""},
		"none if it names none":                    {[]ranking{by("")}, "", "ranker-0 names none of 3 pods, and acme.example/scratch has no other candidates"},
		"none if it fails":                         {[]ranking{failing}, "", "the ranking by ranker-0 failed, and acme.example/scratch has no other candidates: plugin refused"},
		"none without a ranker":                    {nil, "", "no plugin that ranks acme.example/scratch answers, and it has no other candidates"},
		"those of the next if the first fails":     {[]ranking{failing, by("c a")}, "c a", ""},
		"none of the next if the first names none": {[]ranking{by(""), by("c a")}, "", "ranker-0 names none of 3 pods, and acme.example/scratch has no other candidates"},
	} {
		for _, veto := range []bool{true, false} { // as under a soft and a hard threshold
			n := newNode(t, nil, "a", "b", "c")
			got, uids := n.scoped(t, eviction.RankedPods, veto, c.rankers...)
			if uids != c.want || got.Unnamed != c.why {
				t.Errorf("%s: %q because of %q, want %q because of %q", name, uids, got.Unnamed, c.want, c.why)
			}
			if why := got.WhyNobody(func(string) bool { return false }); c.want == "" && why != c.why {
				t.Errorf("%s: nobody goes because of %q, want %q", name, why, c.why)
			}
			if _, all := n.scoped(t, eviction.AllPods, false, c.rankers...); len(strings.Fields(all)) != 3 {
				t.Errorf("%s: of a signal of all pods only %q may go", name, all)
			}
		}
	}
}

func TestEqualPodsAreOrderedByTheNextRanker(t *testing.T) {
	for name, c := range map[string]struct {
		rankers []ranking
		want    string
	}{
		"no ties":                       {[]ranking{by("c b a"), by("a b c d")}, "c b a"},
		"0 is no tie":                   {[]ranking{by("c=0 b=0 a=0"), by("a b c d")}, "c b a"},
		"a tie":                         {[]ranking{by("d c=1 b=1 a"), by("a b c d")}, "d b c a"},
		"two ties":                      {[]ranking{by("d=2 c=2 b=1 a=1"), by("a b c d")}, "c d a b"},
		"a number that comes again":     {[]ranking{by("d=1 c=1 b a=1"), by("a b c d")}, "c d b a"},
		"a tie within the tie":          {[]ranking{by("d=1 c=1 b=1 a=1"), by("d c=7 b=7 a"), by("b c")}, "d b c a"},
		"the next leaves one out":       {[]ranking{by("d=1 c=1 b=1 a=1"), by("a")}, "a d c b"},
		"the next fails":                {[]ranking{by("d=1 c=1"), {refuses: eviction.ErrRefused}, by("c d")}, "c d"},
		"at last in the built-in order": {[]ranking{by("b=1 d=1 a=1")}, "d b a"},
	} {
		n := newNode(t, nil, "a", "b", "c", "d")
		for i, priority := range map[int]int32{0: 3, 1: 2, 2: 1, 3: 0} { // the built-in order is d, c, b, a
			n.pods[i].Row.Priority = priority
		}
		if _, got := n.scoped(t, eviction.AllPods, true, c.rankers...); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	n := newNode(t, nil, "a", "b")
	if got, _ := n.scoped(t, eviction.AllPods, true, by("b=1 a=1"), by("a b")); got.Order[0].Reason != "equal to the next, before it by ranker-1" || got.Order[1].Reason != "" {
		t.Errorf("reasons %+v", got.Order)
	}
}

// Whatever rankers answer: of a signal of ranked pods none goes that no ranker named, of one of all pods each may go,
// no pod is there twice, and pods of different groups keep their order.
func TestScopeAndTiesHoldForAllAnswers(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	n := newNode(t, nil, "a", "b", "c", "d", "e")
	for range 3000 {
		var rankers []ranking
		named := map[string]bool{}
		var leading []eviction.Ranked
		for range random.IntN(4) {
			var r ranking
			if random.IntN(4) == 0 {
				r.refuses = eviction.ErrRefused
			}
			for _, i := range random.Perm(5)[:random.IntN(6)] {
				r.order = append(r.order, eviction.Ranked{UID: n.pods[i].Row.UID, Tie: uint32(random.IntN(3))})
			}
			if r.refuses == nil && leading == nil {
				leading = append([]eviction.Ranked{}, r.order...)
				for _, one := range r.order {
					named[one.UID] = true
				}
			}
			rankers = append(rankers, r)
		}
		scope, veto := []eviction.CandidateScope{eviction.AllPods, eviction.RankedPods}[random.IntN(2)], random.IntN(2) == 0
		c, text := n.scoped(t, scope, veto, rankers...)
		uids := strings.Fields(text)
		if slices.Sort(uids); len(slices.Compact(slices.Clone(uids))) != len(uids) {
			t.Fatalf("%+v: %q has a pod twice", rankers, text)
		}
		for _, uid := range uids {
			if scope == eviction.RankedPods && !named[uid] {
				t.Fatalf("%+v: %s goes, which no ranker in charge named", rankers, uid)
			}
		}
		if scope == eviction.RankedPods && (len(uids) == 0) != (c.Unnamed != "") || len(uids) != len(named) && scope == eviction.RankedPods {
			t.Fatalf("%+v: %q of %v because of %q", rankers, text, named, c.Unnamed)
		}
		if scope == eviction.AllPods && !veto && len(uids) != 5 {
			t.Fatalf("%+v: %q, want all pods", rankers, text)
		}
		group, number := map[string]int{}, 0
		for i, one := range leading {
			if i == 0 || one.Tie == 0 || one.Tie != leading[i-1].Tie {
				number++
			}
			group[one.UID] = number
		}
		last := 0
		for _, uid := range strings.Fields(text)[:min(len(leading), len(uids))] {
			if group[uid] < last {
				t.Fatalf("%+v: %q is out of the order of groups %v", rankers, text, group)
			}
			last = group[uid]
		}
	}
}
