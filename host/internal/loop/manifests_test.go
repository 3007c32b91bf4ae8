package loop

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/rundir"
)

func TestBrokenManifestsAreToldAtTheStart(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.podsErr = errors.New("the runtime does not answer")
		n.manifests = func() []pods.Problem {
			return []pods.Problem{{File: "a.yaml", Err: errors.New("is empty, want a v1.Pod")}}
		}
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		if got, want := n.loop.Snapshot().Problems, []string{"a.yaml: is empty, want a v1.Pod"}; !slices.Equal(got, want) {
			t.Errorf("status has %q, want %q", got, want)
		}
		if got := strings.Count(n.log.String(), "pod manifest has a problem"); got != 1 || n.listings > 0 {
			t.Errorf("logged %d times after %d listings of pods, want once and none", got, n.listings)
		}
	})
}

// The first look at the node does not wait for a slow disk with manifests.
func TestNobodyWaitsForManifests(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		read := make(chan struct{})
		n.manifests = func() []pods.Problem {
			<-read
			return []pods.Problem{{File: "a.yaml", Err: errors.New("is empty")}}
		}
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.settle()
		if n.running["uid-big"] {
			t.Error("big still runs, want it evicted")
		}
		close(read)
		n.settle()
		if got := n.loop.Snapshot().Problems; len(got) > 0 {
			t.Errorf("status has %q, want nothing: the listing for the eviction knew better", got)
		}
	})
}
