package adapter

import (
	"context"
	"errors"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/evictd/evictd/host"
)

// ErrSplit is of a node whose images and writable layers are on two filesystems, which the
// kubelet does not support with its gate off.
var ErrSplit = errors.New("KubeletSeparateDiskGC is turned off but we still have a split filesystem")

// disks is the kubelet's DiskInfoProvider.
type disks struct{ host.DiskInfoProvider }

// HasDedicatedImageFs implements host.DiskInfoProvider. Without knowing it the kubelet
// does not evict at all.
func (d disks) HasDedicatedImageFs(ctx context.Context) (bool, error) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.KubeletSeparateDiskGC) {
		if split, err := d.HasDedicatedContainerFs(ctx); err == nil && split {
			return false, ErrSplit
		}
	}
	return d.DiskInfoProvider.HasDedicatedImageFs(ctx)
}
