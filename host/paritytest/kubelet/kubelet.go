package kubelet

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/features" // the gates that a scenario may set

	"github.com/evictd/evictd/host/internal/why/replay"
)

// Minor is the minor release of the kubelet.
const Minor = version.DefaultKubeBinaryVersion

// release is the whole one if the linker sets it.
var release = "v" + Minor

// Kubelet decides scenarios, one at a time: its gates and its metrics belong to
// the whole process.
type Kubelet struct {
	mu      sync.Mutex
	counter *counter
}

// New returns the kubelet. There can be only one per process.
func New() (*Kubelet, error) {
	klog.SetLogger(logr.Discard()) // what the kubelet logs without being given a logger
	c, err := newCounter()
	if err != nil {
		return nil, fmt.Errorf("kubelet metrics: %w", err)
	}
	return &Kubelet{counter: c}, nil
}

// Walk runs s and calls look with each step. In a decision the first outcome is that for the order
// of pods in the scenario.
func (k *Kubelet) Walk(ctx context.Context, s *replay.Scenario, look func(*Step) error) (*replay.Decisions, error) {
	figures, err := decode(s)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	reset, err := setGates(s.Config.FeatureGates)
	if err != nil {
		return nil, err
	}
	defer reset()

	d := &replay.Decisions{SchemaVersion: replay.SchemaVersion, Oracle: "k8s.io/kubernetes " + release + " pkg/kubelet/eviction", Scenario: s.Name, Steps: []replay.StepDecision{}}
	if d.ConfigErrors = configErrors(&s.Config); len(d.ConfigErrors) > 0 {
		d.ConfigError = d.ConfigErrors[0]
		return d, nil
	}
	r, err := newRun(s, k.counter)
	if err != nil {
		return nil, err
	}
	active := slices.Clone(s.Pods)
	for i := range s.Steps {
		step := &s.Steps[i]
		active = replacePods(active, step)
		r.clock.Step(step.Advance())
		m := managerOf(r.manager)
		at := &Step{Index: i, ctx: ctx, run: r, before: m.clone(), step: step, figures: figures[i], active: active}
		first := r.step(ctx, m, step, figures[i], slices.Clone(active))
		at.Decision, at.ordered = first.decision(r.clock.Now()), first.ordered()
		for _, pod := range step.Admit {
			at.Decision.Admit = append(at.Decision.Admit, r.admission(pod))
		}
		if err := look(at); err != nil {
			return nil, err
		}
		d.Steps = append(d.Steps, at.Decision)
	}
	return d, nil
}

// configErrors returns the kubelet's possible errors for a configuration. Of several mistakes it
// names a random one.
func configErrors(c *replay.Config) []string {
	var all []string
	for range 64 {
		if _, err := parse(c); err != nil && !slices.Contains(all, err.Error()) {
			all = append(all, err.Error())
		}
	}
	slices.Sort(all)
	return all
}

// setGates sets feature gates and returns a function that restores them.
func setGates(gates map[string]bool) (func(), error) {
	gate := utilfeature.DefaultMutableFeatureGate
	before := map[string]bool{}
	for name := range gates {
		for known := range gate.GetAll() {
			if string(known) == name {
				before[name] = gate.Enabled(known)
			}
		}
	}
	reset := func() { _ = gate.SetFromMap(before) } // they were set before
	if err := gate.SetFromMap(gates); err != nil {
		reset()
		return nil, fmt.Errorf("featureGates: %w", err)
	}
	return reset, nil
}

// replacePods applies the changes of a step to the active pods.
func replacePods(active []*v1.Pod, step *replay.Step) []*v1.Pod {
	active = slices.DeleteFunc(active, func(p *v1.Pod) bool { return slices.Contains(step.RemovePods, string(p.UID)) })
	for _, update := range step.UpdatePods {
		for i, p := range active {
			if p.UID == update.UID {
				active[i] = update
			}
		}
	}
	return append(active, step.AddPods...)
}
