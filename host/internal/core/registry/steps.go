package registry

import (
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// A Step is a step of node-level reclaim with its plugin, and the signal that it is listed for.
type Step struct {
	Name   string
	Signal eviction.Signal
	// Optional: no kubelet has the step, the plugin's configuration enables it.
	Optional bool
	By       *Instance
}

// Steps returns the reclaim steps of all serving plugins that run before an eviction for sig in
// layout, in order. The first plugin runs a step that several have.
func Steps(serving []Provider, sig eviction.Signal, layout eviction.Layout) []Step {
	var steps []Step
	seen := map[string]bool{}
	for _, p := range serving {
		for _, s := range stepsOf(p.Plugin, p.Config, sig, layout) {
			if !seen[s.Name] {
				seen[s.Name], s.By = true, p.Instance
				steps = append(steps, s)
			}
		}
	}
	return steps
}

// stepsOf returns the steps of p before an eviction for s: those that p's configuration enables and
// that help in layout, listed for s or for another signal of the same filesystem, each once. The
// order of p's lists is preserved.
func stepsOf(p *eviction.Plugin, config string, s eviction.Signal, layout eviction.Layout) []Step {
	names := []eviction.Signal{s}
	for _, other := range layout.SameFilesystem(s) {
		if other != s {
			names = append(names, other)
		}
	}
	var lists [][]string
	listed := map[string]Step{}
	for _, name := range names {
		var list []string
		for _, step := range stepsListed(p, name) {
			if len(step.Layouts) > 0 && !slices.Contains(step.Layouts, layout) || !step.Enabled(config) {
				continue
			}
			list = append(list, step.Name)
			if _, ok := listed[step.Name]; !ok {
				listed[step.Name] = Step{Name: step.Name, Signal: name, Optional: step.EnabledBy != ""}
			}
		}
		lists = append(lists, list)
	}
	var steps []Step
	for _, name := range inOrder(lists) {
		steps = append(steps, listed[name])
	}
	return steps
}

func stepsListed(p *eviction.Plugin, s eviction.Signal) []eviction.ReclaimStep {
	i := slices.IndexFunc(p.Signals, func(spec eviction.SignalSpec) bool { return spec.Signal == s })
	if i < 0 || !p.For(s).Has(eviction.CanReclaim) {
		return nil
	}
	return p.Signals[i].ReclaimSteps
}

// inOrder merges several lists, with each name once and none before one that it follows in any of
// them. In a conflict the earlier list counts.
func inOrder(lists [][]string) []string {
	var out []string
	for {
		lists = slices.DeleteFunc(lists, func(list []string) bool { return len(list) == 0 })
		if len(lists) == 0 {
			return out
		}
		next := lists[0][0]
		for _, list := range slices.Backward(lists) {
			if !slices.ContainsFunc(lists, func(l []string) bool { return slices.Index(l, list[0]) > 0 }) { // it follows no other
				next = list[0]
			}
		}
		out = append(out, next)
		for i := range lists {
			lists[i] = slices.DeleteFunc(lists[i], func(name string) bool { return name == next })
		}
	}
}
