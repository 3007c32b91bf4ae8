package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/paritytest/kubelet"
	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/shared/eviction"
)

// A Preemptor makes room for pods, one at a time.
type Preemptor struct {
	gates   map[string]bool
	manager *host.Embedded
	active  []*v1.Pod
	record  *kubelet.Record
}

// NewPreemptor starts a manager with feature gates. It requires a plugin, but does not call it.
// stop ends it.
func NewPreemptor(ctx context.Context, gates map[string]bool) (_ *Preemptor, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "evictd-")
	if err != nil {
		return nil, nil, err
	}
	p := &Preemptor{gates: gates}
	c := host.DefaultConfig()
	c.Compatibility = kubelet.Minor
	c.NodeName, c.RunDir, c.PluginDir, c.FeatureGates, c.Pacing = "node-1", dir, "", gates, "kubelet"
	p.manager, err = host.NewEmbedded(host.Embedding{
		Config: c, Log: slog.New(slog.DiscardHandler), Recorder: p,
		Summary: func(context.Context) ([]byte, error) { return []byte("{}"), nil },
		Plugins: map[string]eviction.Plugin{"pid": pid.New()},
		KillPod: func(pod *v1.Pod, isEvicted bool, grace *int64, change func(*v1.PodStatus)) error {
			return p.record.Kill(pod, isEvicted, grace, change)
		},
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stop = func() error {
		cancel()
		return errors.Join(p.manager.Wait(), os.RemoveAll(dir))
	}
	active := func() []*v1.Pod { return slices.Clone(p.active) }
	if err := p.manager.Start(ctx, nil, active, func(*v1.Pod) bool { return true }, 0); err != nil {
		cancel()
		return nil, nil, err
	}
	return p, stop, nil
}

// NodeEvent implements host.Recorder.
func (p *Preemptor) NodeEvent(eventType, reason, message string) {
	p.record.Event(&v1.ObjectReference{Kind: "Node", Name: "node-1", UID: "node-1"}, eventType, reason, message)
}

// PodEvent implements host.Recorder.
func (p *Preemptor) PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	p.record.AnnotatedEventf(pod, annotations, eventType, reason, "%s", message)
}

// shortage adapts the kubelet's reason to host.InsufficientResource.
type shortage struct {
	*lifecycle.InsufficientResourceError
}

func (s shortage) GetResourceName() v1.ResourceName { return s.ResourceName }

// Preempt makes room for a pod with evictd.
func (p *Preemptor) Preempt(ctx context.Context, r *kubelet.Rejection) (*kubelet.Response, error) {
	if !maps.Equal(p.gates, r.FeatureGates) {
		return nil, fmt.Errorf("feature gates %v: the manager runs with %v", r.FeatureGates, p.gates)
	}
	p.active, p.record = r.Active, &kubelet.Record{KillErrors: r.KillErrors}
	var reported []host.FailureReason
	for _, reason := range r.Reasons {
		if e, ok := reason.(*lifecycle.InsufficientResourceError); ok {
			reported = append(reported, shortage{e})
		} else {
			reported = append(reported, reason)
		}
	}
	left, err := p.manager.HandleAdmissionFailure(ctx, r.Pod, reported)
	out := &kubelet.Response{Outcome: p.record.Outcome}
	for _, reason := range left {
		if s, ok := reason.(shortage); ok {
			out.Left = append(out.Left, s.InsufficientResourceError)
		} else {
			out.Left = append(out.Left, reason)
		}
	}
	if err != nil {
		out.Error = err.Error()
	}
	return out, nil
}
