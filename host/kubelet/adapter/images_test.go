package adapter

import (
	"context"
	"errors"
	"strings"
	"testing"

	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// listed is a runtime with a list of images that it keeps.
type listed struct {
	kubecontainer.Runtime

	images []kubecontainer.Image
	err    error
}

func (l *listed) ListImages(context.Context) ([]kubecontainer.Image, error) { return l.images, l.err }

func TestKeptImagesAreListedAsPinned(t *testing.T) {
	of := &listed{images: []kubecontainer.Image{
		{ID: "kept", RepoTags: []string{"kept:1"}, RepoDigests: []string{"kept@sha256:1"}},
		{ID: "pinned", RepoTags: []string{"kept:2"}, Pinned: true},
		{ID: "free"},
	}}
	r := &KeepingRuntime{Runtime: of, kept: func(tags, digests []string, id string) bool {
		return len(tags) > 0 && strings.HasPrefix(tags[0], "kept:") && (len(digests) == 1 || id == "pinned")
	}}
	images, err := r.ListImages(t.Context())
	if err != nil || len(images) != 3 || !images[0].Pinned || !images[1].Pinned || images[2].Pinned {
		t.Errorf("%+v, %v, want the first two pinned", images, err)
	}
	if of.images[0].Pinned {
		t.Error("the runtime's own list has changed")
	}
	ids := make([]string, 1, 9)
	ids[0] = "young"
	if got := strings.Join(r.Remaining(ids), " "); got != "young kept" {
		t.Errorf("remaining %q, want the kept image, too", got)
	}
	if got := ids[:2][1]; got != "" {
		t.Errorf("%q was written to the caller's list", got)
	}
	of.images = of.images[1:]
	if _, err := r.ListImages(t.Context()); err != nil || len(r.Remaining(nil)) != 0 {
		t.Errorf("%v; remaining %q after it was removed by hand", err, r.Remaining(nil))
	}
	of.err = errors.New("no answer")
	if _, err := r.ListImages(t.Context()); !errors.Is(err, of.err) {
		t.Errorf("error %v, want the runtime's", err)
	}
}

func TestWithoutTheSettingsNoRuntimeIsWrapped(t *testing.T) {
	if r := KeepImages(&listed{}); r != nil {
		t.Errorf("%+v, want none", r)
	}
}
