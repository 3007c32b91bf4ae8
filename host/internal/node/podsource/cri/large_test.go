package cri

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
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
	if candidates != 20 || got.Stale == nil || got.Complete {
		t.Errorf("%d candidates, stale: %v, complete %t; want all 20, and that others may be missing", candidates, got.Stale, got.Complete)
	}
	if want := []pods.Ended{{UID: "left", State: eviction.PodActive}}; !slices.Equal(got.Ended, want) {
		t.Errorf("ended %v, want %v", got.Ended, want)
	}
}

// 651 MiB of annotations were kept, which decide nothing.
func TestOfAManifestOnlyTheAnnotationsThatAreWantedAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // else half a megabyte may take longer than a listing waits
		dir := t.TempDir()
		s := fakecri.New()
		s.Add(fakecri.Pod{UID: "p", Namespace: "default", Name: "p", Annotations: map[string]string{"kubernetes.io/config.source": "api"}, Containers: []fakecri.Container{{Name: "c"}}})
		put(t, dir, "p.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {uid: p, name: p, annotations: {large: "+strings.Repeat("x", 1<<19)+", first: f, later: l}}")
		wants := []string{"first"}
		rules := pods.Rules{Wanted: &pods.Wanted{Ask: func() []string { return wants }}}
		source := New(criclient.NewLister(s.Client(), nil), NewManifests(dir, rules))
		for _, want := range []map[string]string{{"first": "f"}, {"first": "f", "later": "l"}} {
			for range 2 {
				got, err := source.Active(t.Context())
				if err != nil || len(got.Pods) != 1 {
					t.Fatalf("%v, %v", got.Pods, err)
				}
				want["kubernetes.io/config.source"] = "api"
				if diff := cmp.Diff(want, got.Pods[0].Row.Annotations); diff != "" {
					t.Error(diff)
				}
				if held := len(fmt.Sprintf("%+v", source.manifests.joined.files["p.yaml"].manifest.api)); held > 4096 {
					t.Errorf("%d bytes are held, want 4 KiB at most", held)
				}
			}
			wants = []string{"later"} // another plugin; the former may come back
		}
	})
}

// 4096 manifests of 1 MiB were held as a whole.
func TestOfAManifestNoMoreIsKeptThanCounts(t *testing.T) {
	text := "apiVersion: v1\nkind: Pod\nmetadata: {uid: p, name: p}\nstatus: {phase: Failed}\nspec: {volumes: [" +
		strings.TrimSuffix(strings.Repeat("{name: v},", 15000), ",") + "], containers: [{name: c, env: [{name: E, value: " + strings.Repeat("x", 1<<19) + "}]}]}"
	dir := t.TempDir()
	put(t, dir, "p.yaml", text)
	file := NewManifests(dir, defaultRules).read(filepath.Join(dir, "p.yaml"), "", nil)
	if len(file.problems) != 1 || !strings.Contains(file.problems[0].Error(), "has 15000 volumes, the first 1") {
		t.Errorf("%v", file.problems)
	}
	if held := file.manifest.api.Size(); held > 16<<10 || len(file.manifest.api.Spec.Containers) != 1 {
		t.Errorf("%d bytes are held", held)
	}
}
