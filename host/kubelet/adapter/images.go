package adapter

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/klog/v2"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"

	"github.com/evictd/evictd/plugins/disk"
)

// A KeepingRuntime is the runtime of a kubelet's image garbage collector, which removes no pinned
// image: it lists the images to keep as pinned.
type KeepingRuntime struct {
	kubecontainer.Runtime

	kept func(tags, digests []string, id string) bool

	mu   sync.Mutex
	last []kubecontainer.Image // that the last list had as pinned by kept
}

// KeepImages returns a KeepingRuntime by plugins.disk.config in evictd's file. It is nil if no image
// is to be kept or evictd does not run.
func KeepImages(r kubecontainer.Runtime) *KeepingRuntime {
	if Off() {
		return nil
	}
	c, err := file()
	if err != nil {
		return nil // New returns the error
	}
	kept, err := disk.KeptImages(c.Plugins["disk"].Config)
	if err != nil {
		Failed(fmt.Errorf("%s: plugins.disk: %w", EnvConfig, err))
	}
	if kept == nil {
		return nil
	}
	return &KeepingRuntime{Runtime: r, kept: kept}
}

// ListImages implements kubecontainer.Runtime.
func (r *KeepingRuntime) ListImages(ctx context.Context) ([]kubecontainer.Image, error) {
	images, err := r.Runtime.ListImages(ctx)
	images = slices.Clone(images)
	var last []kubecontainer.Image
	for i := range images {
		if image := &images[i]; !image.Pinned && r.kept(image.RepoTags, image.RepoDigests, image.ID) {
			image.Pinned = true
			last = append(last, *image)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = last
	return images, err
}

// Remaining returns the ids of the images that remained after image garbage collection, which has
// them without pinned ones, with the kept ones. The kubelet forgets who may use other images.
func (r *KeepingRuntime) Remaining(ids []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids = slices.Clone(ids)
	for _, image := range r.last {
		ids = append(ids, image.ID)
	}
	return ids
}

// LogKept logs what the kept images hold, used or not.
func (r *KeepingRuntime) LogKept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var bytes int64
	for _, image := range r.last {
		bytes += image.Size
	}
	if len(r.last) > 0 {
		klog.InfoS("Image garbage collection keeps images by keepImages or importedImages, used or not", "images", len(r.last), "bytes", bytes)
	}
}
