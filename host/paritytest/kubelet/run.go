package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/evictd/evictd/host/internal/why/replay"
)

// run is a manager in the course of a scenario.
type run struct {
	manager eviction.Manager
	admit   lifecycle.PodAdmitHandler
	clock   *passClock
	node    node
	record  Record
	counter *counter
}

func newRun(s *replay.Scenario, c *counter) (*run, error) {
	thresholds, err := parse(&s.Config)
	if err != nil {
		return nil, err
	}
	r := &run{clock: newClock(s.StartTime.Time), counter: c}
	r.node.layout, r.node.record = s.FilesystemLayout, &r.record
	config := eviction.Config{
		PressureTransitionPeriod: s.Config.EvictionPressureTransitionPeriod.Duration,
		MaxPodGracePeriodSeconds: int64(s.Config.EvictionMaxPodGracePeriod),
		Thresholds:               thresholds,
	}
	ref := &v1.ObjectReference{Kind: "Node", Name: s.NodeName, UID: types.UID(s.NodeName)}
	r.manager, r.admit = eviction.NewManager(&r.node, config, r.kill, &r.node, &r.node, &r.record, ref, r.clock,
		s.Config.LocalStorageCapacityIsolation)
	return r, nil
}

func parse(c *replay.Config) ([]evictionapi.Threshold, error) {
	return eviction.ParseThresholdConfig(c.EnforceNodeAllocatable, c.EvictionHard, c.EvictionSoft,
		c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim)
}

// pass records the actions of a manager in a step.
type pass struct {
	outcome           replay.Outcome
	err               string
	calls             int
	memory, disk, pid bool
}

// ordered reports whether pods were evicted in the order of the list, which would not hold for
// another manager with another list.
func (p *pass) ordered() bool {
	return slices.ContainsFunc(p.outcome.Signals, func(s string) bool { return strings.HasSuffix(s, ".limit") })
}

// decision returns p as the decision of the step, with its outcome as the only one.
func (p *pass) decision(now time.Time) replay.StepDecision {
	d := replay.StepDecision{
		Now: metav1.NewTime(now), Error: p.err, Outcomes: []replay.Outcome{p.outcome}, SummaryCalls: []int{p.calls},
		MemoryPressure: p.memory, DiskPressure: p.disk, PIDPressure: p.pid,
	}
	for _, c := range []struct {
		name v1.NodeConditionType
		on   bool
	}{{v1.NodeDiskPressure, p.disk}, {v1.NodeMemoryPressure, p.memory}, {v1.NodePIDPressure, p.pid}} {
		if c.on {
			d.NodeConditions = append(d.NodeConditions, string(c.name))
		}
	}
	return d
}

// add adds p's outcome to those of d if it is new.
func (p *pass) add(d *replay.StepDecision) {
	if slices.ContainsFunc(d.Outcomes, func(o replay.Outcome) bool { return equality.Semantic.DeepEqual(o, p.outcome) }) {
		return
	}
	d.Outcomes = append(d.Outcomes, p.outcome)
	if !slices.Contains(d.SummaryCalls, p.calls) {
		d.SummaryCalls = append(d.SummaryCalls, p.calls)
	}
}

// step runs a pass of m, which is r's manager or a copy of it, over pods, which it sorts.
func (r *run) step(ctx context.Context, m manager, step *replay.Step, f figures, pods []*v1.Pod) pass {
	r.node.step, r.node.figures, r.node.calls = step, f, 0
	r.record = Record{KillErrors: step.KillErrors}
	ctx = klog.NewContext(ctx, logr.Discard())
	returned, err := r.synchronize(ctx, m, pods)
	r.count()
	for _, pod := range returned {
		r.record.Outcome.Returned = append(r.record.Outcome.Returned, string(pod.UID))
	}
	if cleanup, ok := step.Cleanup(); ok && err == nil && returned != nil {
		waited := r.clock.await(
			func(passed time.Duration) bool { return passed >= cleanup },
			func(done func() bool) {
				m.waitForPodsCleanup(func(*v1.Pod) bool { return done() }, returned)
			}).Seconds()
		r.record.Outcome.CleanupWaitSeconds = &waited
	}
	p := pass{outcome: r.record.Outcome, calls: r.node.calls}
	p.memory, p.disk, p.pid = r.manager.IsUnderMemoryPressure(), r.manager.IsUnderDiskPressure(), r.manager.IsUnderPIDPressure()
	if err != nil {
		p.err = err.Error()
	}
	return p
}

// synchronize records a panic as the outcome.
func (r *run) synchronize(ctx context.Context, m manager, pods []*v1.Pod) (returned []*v1.Pod, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.record.Outcome.Panic = fmt.Sprint(p)
		}
	}()
	return m.synchronize(ctx, &r.node, func() []*v1.Pod { return pods })
}

// kill records the evictions counted so far first: the kubelet counts after the kill.
func (r *run) kill(pod *v1.Pod, isEvicted bool, grace *int64, change func(*v1.PodStatus)) error {
	r.count()
	return r.record.Kill(pod, isEvicted, grace, change)
}

func (r *run) count() {
	if label := r.counter.grown(); label != "" {
		r.record.Outcome.Signals = append(r.record.Outcome.Signals, label)
	}
}

// admission returns whether pod is admitted.
func (r *run) admission(pod *v1.Pod) replay.Admit {
	result := admit(r.admit, pod)
	return replay.Admit{
		UID: string(pod.UID), Name: pod.Name, Admit: result.Admit, Reason: result.Reason, Message: sortConditions(result.Message),
	}
}

// sortConditions sorts the conditions in brackets, which the kubelet prints in map order.
func sortConditions(message string) string {
	before, rest, ok := strings.Cut(message, "[")
	if !ok {
		return message
	}
	list, after, _ := strings.Cut(rest, "]")
	conditions := strings.Fields(list)
	slices.Sort(conditions)
	return before + "[" + strings.Join(conditions, " ") + "]" + after
}
