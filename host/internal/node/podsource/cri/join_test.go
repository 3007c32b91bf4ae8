package cri

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

func wantProblems(t *testing.T, when string, got []pods.Problem, want ...string) {
	t.Helper()
	texts := []string{}
	for _, p := range got {
		texts = append(texts, p.Error())
	}
	if diff := cmp.Diff(append([]string{}, want...), texts); diff != "" {
		t.Errorf("%s: problems (-want +got):\n%s", when, diff)
	}
}

func listing(t *testing.T, source *Source) pods.Snapshot {
	t.Helper()
	got, err := source.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A manifest of another pod with the uid of one that runs came first by name, and the
// pod's own was not used: it was unmanaged, and its neighbour went.
func TestAForeignManifestDoesNotDisplaceThatOfTheRunningPod(t *testing.T) {
	dir, s := t.TempDir(), fakecri.New()
	s.Add(fakecri.Pod{UID: "u", Namespace: "demo", Name: "reserved", Containers: []fakecri.Container{{Name: "c"}}})
	manifest := func(file, namespace string) {
		put(t, dir, file, strings.Replace(podYAML("u", "reserved"), "namespace: default", "namespace: "+namespace, 1))
	}
	manifest("reserved.yaml", "demo")
	manifest("00-hijack.yaml", "other")
	source := New(criclient.NewLister(s.Client(), nil), NewManifests(dir, defaultRules))
	foreign := filepath.Join(dir, "00-hijack.yaml") + `: metadata.uid "u" belongs to the running pod demo/reserved, the manifest says other/reserved`
	for range 2 {
		got := listing(t, source)
		if len(got.Pods) != 1 || !got.Pods[0].HasManifest || got.Pods[0].API.Namespace != "demo" {
			t.Errorf("pods %+v, want demo/reserved with its own manifest", got.Pods)
		}
		wantProblems(t, "of the listing", got.Problems, foreign)
		wantProblems(t, "of the files, in the same words", source.Problems(), foreign)
	}
	manifest("zz-again.yaml", "demo")
	wantProblems(t, "twice its own", listing(t, source).Problems, foreign,
		filepath.Join(dir, "zz-again.yaml")+`: metadata.uid "u" is also in `+filepath.Join(dir, "reserved.yaml")+", which is used; want one file for each pod")
	testos.Remove(t, filepath.Join(dir, "zz-again.yaml"))
	manifest("reserved.yaml", "elsewhere")
	if got := listing(t, source); !got.Pods[0].HasManifest || got.Pods[0].API.Namespace != "demo" {
		t.Errorf("its own file says another pod: %+v, want what was read before", got.Pods[0])
	}
}

// A directory of manifests that was unmounted, which leaves an empty one, left no
// candidate: nothing was evicted, and no reason was reported.
func TestPodsThatRunKeepTheManifestsThatAreGone(t *testing.T) {
	dir, s := t.TempDir(), fakecri.New()
	for _, name := range []string{"a", "b", "c"} {
		s.Add(fakecri.Pod{UID: name, Namespace: "default", Name: name, Containers: []fakecri.Container{{Name: "c"}}})
		put(t, dir, name+".yaml", podYAML(name, name, "spec: {priority: 7, terminationGracePeriodSeconds: 0}"))
	}
	s.Add(fakecri.Pod{UID: "d", Namespace: "default", Name: "d", NotReady: true})
	put(t, dir, "d.yaml", podYAML("d", "d"))
	source := New(criclient.NewLister(s.Client(), nil), NewManifests(dir, defaultRules))
	wantProblems(t, "before", source.Problems())
	for _, name := range []string{"a", "b", "c", "d"} {
		testos.Remove(t, filepath.Join(dir, name+".yaml"))
	}
	source.Problems() // before any listing
	check := func(names string, want ...string) {
		t.Helper()
		got := listing(t, source)
		for _, p := range got.Pods {
			if has := strings.Contains(names, p.Row.Name); p.HasManifest != has || has && p.Row.Priority != 7 {
				t.Errorf("pod %s: %+v, want what was read before of %q", p, p.Row, names)
			}
		}
		if len(want) > 0 && (got.Complete || len(got.Ended) > 0 && got.Ended[0].State == eviction.PodDeleted) {
			t.Errorf("complete %v, ended %v: a directory that is empty is no word about any pod", got.Complete, got.Ended)
		}
		wantProblems(t, "of the listing", got.Problems, want...)
		wantProblems(t, "of the files, in the same words", source.Problems(), want...)
	}
	const still = "; what was read before is still used"
	check("abc", dir+": 3 running pods have lost their manifest (default/a, default/b, default/c)"+still)
	put(t, dir, "a.yaml", podYAML("a", "a", "spec: {priority: 7, terminationGracePeriodSeconds: 0}"))
	s.Remove("b")
	check("ac", dir+": 1 running pod has lost its manifest (default/c)"+still)
	s.Remove("c")
	check("a")
	s.Add(fakecri.Pod{UID: "c", Namespace: "default", Name: "c", Containers: []fakecri.Container{{Name: "c"}}})
	check("a")
}

// A pod that was removed, its file first or last, was said to have lost its manifest, by a listing up to a minute old.
func TestAPodThatIsRemovedHasLostItsManifest(t *testing.T) {
	for name, static := range map[string]bool{"of the runtime": false, "static": true} {
		t.Run(name, func(t *testing.T) {
			n := newKubeletNode(t)
			dir, file := n.dir, filepath.Join(n.dir, "a.yaml")
			n.Add(fakecri.Pod{UID: "a", Namespace: "default", Name: "a", Containers: []fakecri.Container{{Name: "c"}}})
			put(t, dir, "a.yaml", podYAML("a", "a"))
			word := dir + ": 1 running pod has lost its manifest (default/a); what was read before is still used"
			if static {
				testos.Remove(t, file)
				dir, file = n.static, filepath.Join(n.static, "etcd.yaml")
				n.Remove("a")
				n.Add(staticPod("a", "etcd"))
				put(t, dir, "etcd.yaml", staticYAML("etcd"))
				word = dir + ": 1 running pod has lost its manifest (kube-system/etcd-node-1); what was read before is still used"
			}
			wantProblems(t, "before", listing(t, n.source).Problems)
			testos.Remove(t, file)
			wantProblems(t, "of the files", n.source.Problems())
			ending := listing(t, n.source)
			wantProblems(t, "of a listing within its grace period", ending.Problems)
			if len(ending.Pods) != 1 || !ending.Pods[0].HasManifest || ending.Complete {
				t.Errorf("pods %+v, complete: %v, want the manifest as before, and no word about other pods", ending.Pods, ending.Complete)
			}
			listed := n.source.manifests.joined.listed
			for after, want := range map[time.Duration][]string{59 * time.Second: nil, time.Minute + time.Second: {word}} {
				_, problems, all, _ := n.source.manifests.of(listed, time.Now().Add(after))
				wantProblems(t, "of a listing after "+after.String(), problems, want...)
				if all {
					t.Error("every manifest is used, want that one is gone")
				}
			}
			n.Remove("a")
			wantProblems(t, "when it is gone", listing(t, n.source).Problems)
			wantProblems(t, "of the files, when it is gone", n.source.Problems())
		})
	}
}
