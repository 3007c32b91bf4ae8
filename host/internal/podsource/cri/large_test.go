package cri

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// 16 MiB of annotations left no pod that could be evicted.
func TestLargeAnnotationsCostNoCandidate(t *testing.T) {
	s, dir := fakecri.New(), t.TempDir()
	large := map[string]string{"a": strings.Repeat("x", 1<<20)}
	for i := range 20 {
		uid := fmt.Sprintf("p%d", i)
		s.Add(fakecri.Pod{UID: uid, Namespace: "default", Name: uid, Annotations: large, Containers: []fakecri.Container{{Name: "c"}}})
		put(t, dir, uid+".yaml", podYAML(uid, uid))
	}
	s.Add(fakecri.Pod{UID: "left", Namespace: "default", Name: "left", NotReady: true})
	put(t, dir, "left.yaml", podYAML("left", "left"))
	got := active(t, s, dir)
	candidates := 0
	for _, p := range got.Pods {
		if p.HasManifest && len(p.SandboxIDs) == 1 && len(p.ContainerIDs) == 1 {
			candidates++
		}
	}
	if candidates != 20 || got.Partial == nil || got.Complete {
		t.Errorf("%d candidates, partial: %v, complete %t; want all 20, and that others may be missing", candidates, got.Partial, got.Complete)
	}
	if want := []pods.Ended{{UID: "left", State: eviction.PodActive}}; !slices.Equal(got.Ended, want) {
		t.Errorf("ended %v, want %v", got.Ended, want)
	}
}
