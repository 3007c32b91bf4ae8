package kubelet

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/host/internal/why/replay"
)

// Live is a manager for passes that the caller makes, with its own times and figures.
type Live struct {
	kubelet *Kubelet
	run     *run
}

// NewLive returns a new manager of k.
func NewLive(k *Kubelet, c replay.Config, start time.Time) (*Live, error) {
	r, err := newRun(&replay.Scenario{
		StartTime: metav1.NewTime(start), NodeName: "node", FilesystemLayout: replay.LayoutShared, Config: c,
	}, k.counter)
	if err != nil {
		return nil, err
	}
	return &Live{k, r}, nil
}

// Pass makes one pass and returns the pods that it evicted.
func (l *Live) Pass(ctx context.Context, now time.Time, summary *statsapi.Summary, pods []*v1.Pod) ([]*v1.Pod, error) {
	l.kubelet.mu.Lock()
	defer l.kubelet.mu.Unlock()
	l.run.clock.SetTime(now)
	l.run.node.step, l.run.node.figures, l.run.node.calls = &replay.Step{}, figures{first: summary, after: summary}, 0
	l.run.record = Record{}
	return managerOf(l.run.manager).synchronize(klog.NewContext(ctx, logr.Discard()), &l.run.node, func() []*v1.Pod { return pods })
}

// MemoryPressure reports whether the last pass has left the node under memory pressure.
func (l *Live) MemoryPressure() bool { return l.run.manager.IsUnderMemoryPressure() }
