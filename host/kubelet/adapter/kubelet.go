package adapter

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/server/stats"

	"github.com/evictd/evictd/host"
)

// A Kubelet holds the arguments that a kubelet passes to its eviction manager: those of
// eviction.NewManager, and the fields of eviction.Config.
type Kubelet struct {
	Summary     stats.SummaryProvider
	KillPod     host.KillPodFunc
	ImageGC     ImageGC
	ContainerGC ContainerGC
	Recorder    record.EventRecorder
	NodeRef     *v1.ObjectReference
	Clock       host.Clock

	PressureTransitionPeriod time.Duration
	// MaxPodGracePeriodSeconds bounds grace periods under soft thresholds.
	MaxPodGracePeriodSeconds int64
	Thresholds               []evictionapi.Threshold
	KernelMemcgNotification  bool
	// PodCgroupRoot is the cgroup that contains all pods.
	PodCgroupRoot                 string
	LocalStorageCapacityIsolation bool

	// RunDir, if not empty, overrides the run directory in evictd's configuration.
	RunDir string
	// Simulated is passed to host.Embedding: for tests with simulated time.
	Simulated bool
}

// An ImageGC is the kubelet's image garbage collector.
type ImageGC interface {
	DeleteUnusedImages(ctx context.Context) error
}

// A ContainerGC is the kubelet's container garbage collector.
type ContainerGC interface {
	DeleteAllUnusedContainers(ctx context.Context) error
}

// config returns c with the kubelet's own settings.
func (k *Kubelet) config(c host.Config) host.Config {
	if k.NodeRef != nil {
		c.NodeName = k.NodeRef.Name
	}
	c.EvictionPressureTransitionPeriod.Duration = k.PressureTransitionPeriod
	c.EvictionMaxPodGracePeriod = int32(k.MaxPodGracePeriodSeconds)
	c.KernelMemcgNotification = k.KernelMemcgNotification
	c.LocalStorageCapacityIsolation = k.LocalStorageCapacityIsolation
	if k.RunDir != "" {
		c.RunDir = k.RunDir
	}
	inCgroup(&c, k.PodCgroupRoot)
	return c
}
