package gc_test

import (
	"slices"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/harness/stack"
)

// An image that was imported by hand stays, with its content, and a pod of it starts. Without the
// option it goes, and so does one whose tag another import has taken.
func TestImageGCKeepsRealImportedImages(t *testing.T) { onEachRuntime(t, keepsRealImportedImages) }

func keepsRealImportedImages(t *testing.T, f *field) {
	const ours = "registry.local/team/ours:1"
	imported := func(name string, files int) {
		t.Helper()
		image := stack.BusyboxImage(name, nil)
		image.FillerBytes, image.FillerFiles = fill, files
		if err := f.Import(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
	zero := gc.Duration(0)
	collect := func(s gc.Settings) (tags []string, untagged int) {
		t.Helper()
		s.ImageMinimumGCAge, s.ContainerLogsDir = &zero, f.links
		f.collector.Apply(s)
		released, err := f.collector.Images(t.Context(), eviction.Reclaimed{}, nil)
		t.Logf("%+v", released)
		if err != nil {
			t.Error(err)
		}
		reply, err := f.Images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, image := range reply.GetImages() {
			tags = append(tags, image.GetRepoTags()...)
			if len(image.GetRepoTags()) == 0 {
				untagged++
			}
			if len(image.GetRepoDigests()) > 0 {
				t.Errorf("%q has digests %q, but nothing was pulled", image.GetRepoTags(), image.GetRepoDigests())
			}
		}
		slices.Sort(tags)
		return tags, untagged
	}
	imported(unused, 2)
	imported(unused, 3) // takes the tag
	imported(ours, 4)
	const pause = "localhost/evictd/pause:1"
	for _, c := range []struct {
		what string
		s    gc.Settings
		want []string
	}{
		{"importedImages", gc.Settings{ImportedImages: true}, []string{pause, stack.PodImage, unused, ours}},
		{"keepImages", gc.Settings{KeepImages: []string{"registry.local/*"}}, []string{pause, ours}},
	} {
		if got, untagged := collect(c.s); !slices.Equal(got, c.want) || untagged > 0 {
			t.Errorf("%s: left %q and %d without a tag, want %q", c.what, got, untagged, c.want)
		}
	}
	kept := f.run(t, "kept", ours, sleeps)
	if running, err := kept.Running(t.Context()); err != nil || !running {
		t.Errorf("the pod of the kept image runs: %v, %v", running, err)
	}
	imported(unused, 5)
	if got, _ := collect(gc.Settings{}); !slices.Equal(got, []string{pause, ours}) {
		t.Errorf("without the options: left %q, want the sandbox image and the one in use", got)
	}
}
