package registry

import (
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// A Step is a step of node-level reclaim with its plugin.
type Step struct {
	policy.Step

	By *Instance
}

// Steps returns the reclaim steps of all serving plugins that run before an eviction for sig in
// layout, in order. The first plugin runs a step that several have.
func Steps(serving []Provider, sig eviction.Signal, layout eviction.Layout) []Step {
	var steps []Step
	seen := map[string]bool{}
	for _, p := range serving {
		for _, s := range policy.StepsOf(p.Plugin, p.Config, sig, layout) {
			if !seen[s.Name] {
				seen[s.Name] = true
				steps = append(steps, Step{s, p.Instance})
			}
		}
	}
	return steps
}
