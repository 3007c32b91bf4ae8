package adapter

import (
	"context"
	"errors"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/features"

	"github.com/evictd/evictd/host"
)

// ErrSplit reports a node with images and writable layers on two filesystems, which the kubelet
// supports with its feature gate only.
var ErrSplit = errors.New("KubeletSeparateDiskGC is turned off but we still have a split filesystem")

// disks adapts the kubelet's DiskInfoProvider.
type disks struct{ host.DiskInfoProvider }

// HasDedicatedImageFs implements host.DiskInfoProvider. On its error the kubelet does not evict at
// all.
func (d disks) HasDedicatedImageFs(ctx context.Context) (bool, error) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.KubeletSeparateDiskGC) {
		if split, err := d.HasDedicatedContainerFs(ctx); err == nil && split {
			return false, ErrSplit
		}
	}
	return d.DiskInfoProvider.HasDedicatedImageFs(ctx)
}
