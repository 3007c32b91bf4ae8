package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/shared/eviction"
)

// sourceSummary is the value of evictd's setting for figures from the kubelet's summary.
const sourceSummary = "summary"

// A Manager runs evictd in place of a kubelet's eviction manager.
type Manager struct{ of *host.Embedded }

func log() *slog.Logger { return slog.New(logr.ToSlogHandler(klog.Background().WithName("evictd"))) }

// New returns the Manager of a kubelet. The error lists every problem.
//
// evictd's built-in plugins run in this process, together with those in the plugin directory.
func New(k Kubelet) (*Manager, error) {
	c, err := settings()
	if err != nil {
		return nil, err
	}
	c = k.config(c)
	if err := knowsItsRuntime(c); err != nil {
		return nil, err
	}
	e := host.Embedding{
		Config: c, Version: version.Get().GitVersion, Commit: version.Get().GitCommit, Log: log(),
		KillPod: k.KillPod, Recorder: events{k.Recorder, k.NodeRef}, Clock: k.Clock, Metrics: counts{},
		Thresholds: thresholds(k.Thresholds), Simulated: k.Simulated,
		Reclaim: map[string]host.ReclaimFunc{"container-gc": k.ContainerGC.DeleteAllUnusedContainers, "image-gc": k.ImageGC.DeleteUnusedImages},
		Plugins: map[string]eviction.Plugin{"memory": memory.New(), "disk": disk.New(), "pid": pid.New()},
	}
	if c.Source == sourceSummary {
		e.Summary = k.summary
	}
	of, err := host.NewEmbedded(e)
	if err != nil {
		return nil, fmt.Errorf("evictd: %w", err)
	}
	return &Manager{of}, nil
}

func (k *Kubelet) summary(ctx context.Context) ([]byte, error) {
	s, err := k.Summary.Get(ctx, true)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// Run starts evicting, and returns at once. With an interval of 0 only Synchronize makes passes. If
// evictd cannot continue before ctx ends, Run calls Failed and then fallBack.
func (m *Manager) Run(ctx context.Context, of host.DiskInfoProvider, active func() []*v1.Pod, cleanedUp func(*v1.Pod) bool, interval time.Duration, fallBack func()) {
	go func() {
		err := m.Start(ctx, of, active, cleanedUp, interval)
		if err == nil {
			err = m.of.Wait()
		}
		if ctx.Err() == nil {
			Failed(err)
			fallBack()
		}
	}()
}

// Start is like Run, but returns after the plugins have started.
func (m *Manager) Start(ctx context.Context, of host.DiskInfoProvider, active func() []*v1.Pod, cleanedUp func(*v1.Pod) bool, interval time.Duration) error {
	return m.of.Start(ctx, disks{of}, active, cleanedUp, interval)
}

// Wait returns after a started Manager has ended.
func (m *Manager) Wait() error { return m.of.Wait() }

// Synchronize makes one pass, like the kubelet's synchronize, and returns the evicted pods.
func (m *Manager) Synchronize(ctx context.Context) ([]*v1.Pod, error) {
	pass, err := m.of.Synchronize(ctx)
	if errors.Is(err, ErrSplit) {
		return nil, ErrSplit
	}
	var evicted []*v1.Pod
	for i := range pass.Evicted {
		evicted = append(evicted, pass.Evicted[i].Pod.API)
	}
	return evicted, err
}

// IsUnderMemoryPressure implements eviction.Manager, like the methods below.
func (m *Manager) IsUnderMemoryPressure() bool { return m.of.IsUnderMemoryPressure() }

// IsUnderDiskPressure reports whether the node is under disk pressure.
func (m *Manager) IsUnderDiskPressure() bool { return m.of.IsUnderDiskPressure() }

// IsUnderPIDPressure reports whether the node is under process id pressure.
func (m *Manager) IsUnderPIDPressure() bool { return m.of.IsUnderPIDPressure() }

// Admit implements lifecycle.PodAdmitHandler.
func (m *Manager) Admit(attrs *lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return lifecycle.PodAdmitResult(m.of.Admit(attrs.Pod))
}

// Admit is like Manager.Admit, for conditions known to another component.
func Admit(attrs *lifecycle.PodAdmitAttributes, conditions []v1.NodeConditionType) lifecycle.PodAdmitResult {
	c, err := settings()
	if err != nil { // a kubelet would have failed before
		return lifecycle.PodAdmitResult{Reason: "Evicted", Message: err.Error()}
	}
	var known []eviction.Condition
	for _, condition := range conditions {
		known = append(known, eviction.Condition(condition))
	}
	return lifecycle.PodAdmitResult(host.Admit(attrs.Pod, known, &c))
}
