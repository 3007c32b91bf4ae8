package kubelet

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/host/internal/why/replay"
)

// A Timer times repeated passes of one manager over the first step of a scenario.
type Timer struct {
	run  *run
	step *replay.Step
	f    figures
	pods []*v1.Pod
}

// NewTimer returns a Timer of k with the figures of s ready. Nothing else may use the kubelet
// meanwhile.
func NewTimer(k *Kubelet, s *replay.Scenario) (*Timer, error) {
	f, err := decode(s)
	if err != nil {
		return nil, err
	}
	r, err := newRun(s, k.counter)
	if err != nil {
		return nil, err
	}
	return &Timer{run: r, step: &s.Steps[0], f: f[0], pods: s.Pods}, nil
}

// Pass makes one pass and returns its duration and the number of evicted pods.
func (t *Timer) Pass(ctx context.Context) (time.Duration, int, error) {
	t.run.node.step, t.run.node.figures, t.run.node.calls = t.step, t.f, 0
	t.run.record = Record{}
	ctx = klog.NewContext(ctx, logr.Discard())
	pods := slices.Clone(t.pods)
	m := managerOf(t.run.manager)
	began := time.Now()
	evicted, err := m.synchronize(ctx, &t.run.node, func() []*v1.Pod { return pods })
	return time.Since(began), len(evicted), err
}
