package registry

import (
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// A Step is a step of node-level reclaim and who runs it.
type Step struct {
	policy.Step

	By *Instance
}

// Steps returns what runs before a pod goes for sig in layout, in this order, by those
// who serve reclaim: the steps of all of them. One that several have is run by the
// first.
func Steps(serving []Provider, sig eviction.Signal, layout eviction.Layout) []Step {
	var steps []Step
	seen := map[string]bool{}
	for _, p := range serving {
		for _, s := range policy.StepsOf(p.Plugin, sig, layout) {
			if !seen[s.Name] {
				seen[s.Name] = true
				steps = append(steps, Step{s, p.Instance})
			}
		}
	}
	return steps
}
