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
	"github.com/evictd/evictd/shared/eviction/rank"
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

// by returns the answer "a b".
func by(text string) (r ranking) {
	for uid := range strings.FieldsSeq(text) {
		r.order = append(r.order, eviction.Ranked{UID: uid})
	}
	return r
}

// scoped returns the choice for a custom signal with rankers, the first in charge.
func (n *node) scoped(t *testing.T, scope eviction.CandidateScope, veto bool, rankers ...eviction.Ranker) (choose.Choice, string) {
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
		rankers []eviction.Ranker
		want    string
		why     string
	}{
		"those that it names":                      {[]eviction.Ranker{by("b")}, "b", ""},
		"none if it names none":                    {[]eviction.Ranker{by("")}, "", "ranker-0 names none of 3 pods, and acme.example/scratch has no other candidates"},
		"none if it fails":                         {[]eviction.Ranker{failing}, "", "the ranking by ranker-0 failed, and acme.example/scratch has no other candidates: plugin refused"},
		"none without a ranker":                    {nil, "", "no plugin that ranks acme.example/scratch answers, and it has no other candidates"},
		"those of the next if the first fails":     {[]eviction.Ranker{failing, by("c a")}, "c a", ""},
		"none of the next if the first names none": {[]eviction.Ranker{by(""), by("c a")}, "", "ranker-0 names none of 3 pods, and acme.example/scratch has no other candidates"},
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

// byPrice orders by the annotation price alone, as a vendor's plugin may.
type byPrice struct{ names string }

func (p byPrice) Rank(_ context.Context, q eviction.RankRequest) (order []eviction.Ranked, err error) {
	list := slices.Clone(q.Candidates)
	slices.SortStableFunc(list, func(a, b eviction.Candidate) int {
		return strings.Compare(a.Pod.Annotations["price"], b.Pod.Annotations["price"])
	})
	for _, c := range list {
		if p.names == "" || strings.Contains(p.names, c.Pod.UID) {
			order = append(order, eviction.Ranked{UID: c.Pod.UID})
		}
	}
	return order, nil
}

// asKubelet orders as the built-in plugins do.
type asKubelet struct{}

func (asKubelet) Rank(_ context.Context, q eviction.RankRequest) ([]eviction.Ranked, error) {
	return rank.Kubelet(q.Candidates, q.Signal), nil
}

func TestPodsThatAreEqualToARankerStayInTheKubeletsOrder(t *testing.T) {
	for name, c := range map[string]struct {
		price   string // of a, b, c, d
		rankers []eviction.Ranker
		want    string
	}{
		"all are equal":                {"1111", []eviction.Ranker{byPrice{}}, "d c b a"},
		"two and two":                  {"1212", []eviction.Ranker{byPrice{}}, "c a d b"},
		"none is":                      {"1234", []eviction.Ranker{byPrice{}}, "a b c d"},
		"a ranker as the kubelet":      {"1234", []eviction.Ranker{asKubelet{}}, "d c b a"},
		"after one that fails":         {"1111", []eviction.Ranker{ranking{refuses: eviction.ErrRefused}, byPrice{}}, "d c b a"},
		"and who is left out is last":  {"1111", []eviction.Ranker{byPrice{"bd"}}, "d b c a"},
		"and so is the host's own":     {"1111", nil, "d c b a"},
		"and none of the next is used": {"1111", []eviction.Ranker{byPrice{}, by("a b c d")}, "d c b a"},
	} {
		n := newNode(t, nil, "a", "b", "c", "d")
		for i := range n.pods { // the kubelet's order is d, c, b, a
			n.pods[i].Row.Priority = int32(len(n.pods) - i)
			n.pods[i].Row.Annotations = map[string]string{"price": c.price[i : i+1]}
		}
		choice, got := n.scoped(t, eviction.AllPods, false, c.rankers...)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if first := choice.Candidates[0].Row.UID; first != "a" {
			t.Errorf("%s: candidates of the record begin with %s, want the order of the pod source", name, first)
		}
	}
}

// Whatever rankers answer: of a signal of ranked pods none goes that no ranker named, of one of all pods each may go,
// no pod is there twice, and those that the ranker names keep its order.
func TestScopeHoldsForAllAnswers(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	n := newNode(t, nil, "a", "b", "c", "d", "e")
	for range 3000 {
		var rankers []eviction.Ranker
		named := map[string]bool{}
		var leading []eviction.Ranked
		for range random.IntN(4) {
			var r ranking
			if random.IntN(4) == 0 {
				r.refuses = eviction.ErrRefused
			}
			for _, i := range random.Perm(5)[:random.IntN(6)] {
				r.order = append(r.order, eviction.Ranked{UID: n.pods[i].Row.UID})
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
		order := strings.Fields(text)
		for i := range leading[:min(len(leading), len(order))] {
			if order[i] != leading[i].UID {
				t.Fatalf("%+v: %q is not the order of %v", rankers, text, leading)
			}
		}
	}
}
