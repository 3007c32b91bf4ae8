package kubelet

import (
	"context"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/why/replay"
)

// A Step is a step that the kubelet has run.
type Step struct {
	Index    int
	Decision replay.StepDecision

	ctx     context.Context //nolint:containedctx // it is Walk's, as long as the Step
	run     *run
	before  manager // its state before the pass
	step    *replay.Step
	figures figures
	active  []*v1.Pod
	// ordered: pods were evicted in the order of the list, which must stay.
	ordered bool
}

// More repeats the pass with copies of the manager, until enough returns true or it ran times
// times, and adds new outcomes to the decision. Of pods of equal rank those in favor are likely to
// be evicted.
func (s *Step) More(times int, favor []string, enough func() bool) {
	for n := 0; n < times && !s.ordered && !enough(); n++ {
		p := s.run.step(s.ctx, s.before.clone(), s.step, s.figures, s.shuffle(favor, n))
		p.add(&s.Decision)
	}
}

// shuffle returns the pods in an order determined by n, those in favor first.
func (s *Step) shuffle(favor []string, n int) []*v1.Pod {
	random := rand.New(rand.NewPCG(uint64(s.Index), uint64(n))) //nolint:gosec // a test must be repeatable
	pods := slices.Clone(s.active)
	random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	place := func(p *v1.Pod) int {
		if i := slices.Index(favor, string(p.UID)); i >= 0 {
			return i
		}
		return len(favor)
	}
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int { return place(a) - place(b) })
	return pods
}

// Misplaced returns two neighbors in a ranking for signal that the kubelet ranks in the opposite
// order, false if there are none.
func (s *Step) Misplaced(signal string, uids []string) (first, second string, found bool) {
	pods := make(map[string]*v1.Pod, len(s.active))
	for _, p := range s.active {
		pods[string(p.UID)] = p
	}
	rank := managerOf(s.run.manager).ranking(signal, s.figures.first)
	for i := 1; i < len(uids); i++ {
		a, b := pods[uids[i-1]], pods[uids[i]]
		if a == nil || b == nil {
			return uids[i-1], uids[i], true
		}
		// Equal pods stay in the given order.
		given, reverse := []*v1.Pod{a, b}, []*v1.Pod{b, a}
		rank(given)
		rank(reverse)
		if given[0] == b && reverse[0] == b {
			return uids[i-1], uids[i], true
		}
	}
	return "", "", false
}
