package cri

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// staticYAML returns a manifest as people write it for a kubelet, without a uid.
func staticYAML(name string, more ...string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: \"" + name + "\", namespace: kube-system}\n" + strings.Join(more, "\n")
}

// staticPod returns the pod that a kubelet on node-1 makes of a static manifest.
func staticPod(uid, name string) fakecri.Pod {
	return fakecri.Pod{
		UID: uid, Namespace: "kube-system", Name: name + "-node-1", Containers: []fakecri.Container{{Name: "c"}},
		Annotations: map[string]string{"kubernetes.io/config.source": sourceFile, "kubernetes.io/config.hash": uid},
	}
}

// kubeletNode is a runtime with the two directories.
type kubeletNode struct {
	*fakecri.Server
	dir, static string
	source      *Source
}

func newKubeletNode(t *testing.T) *kubeletNode {
	t.Helper()
	n := &kubeletNode{Server: fakecri.New(), dir: t.TempDir(), static: t.TempDir()}
	n.source = New(criclient.NewLister(n.Client(), nil), NewManifests(n.dir, defaultRules).WithStatic(nodefs.FS{}, n.static, "Node-1"))
	return n
}

func podNamed(t *testing.T, s pods.Snapshot, uid string) pods.Pod {
	t.Helper()
	i := slices.IndexFunc(s.Pods, func(p pods.Pod) bool { return p.Row.UID == uid })
	if i < 0 {
		t.Fatalf("no pod %s among %v", uid, s.Pods)
	}
	return s.Pods[i]
}

func wantStatic(t *testing.T, s pods.Snapshot, uid string, priority int32) {
	t.Helper()
	p := podNamed(t, s, uid)
	if !p.HasManifest || policy.Evictable(p.API) || string(p.API.UID) != uid || p.Row.Priority != priority {
		t.Errorf("pod %s: manifest %v, evictable %v, uid %q, priority %d, want its own manifest and never evictable with priority %d",
			p, p.HasManifest, policy.Evictable(p.API), p.API.UID, p.Row.Priority, priority)
	}
}

// The uid of a static pod is the kubelet's hash: with a manifest that has none the pod was
// one without a manifest, and the leavings of others were never collected.
func TestAStaticPodIsKnownByItsName(t *testing.T) {
	n := newKubeletNode(t)
	put(t, n.static, "etcd.yaml", staticYAML("etcd", "spec: {priority: 5}"))
	put(t, n.static, "etcd.yaml.bak", staticYAML("other"))
	put(t, n.static, ".swap", "rubbish")
	testos.Mkdir(t, filepath.Join(n.static, "old"), 0o700)
	put(t, n.dir, "plain.yaml", podYAML("p", "plain"))
	n.Add(staticPod("hash1", "etcd"))
	n.Add(fakecri.Pod{UID: "p", Namespace: "default", Name: "plain", Containers: []fakecri.Container{{Name: "c"}}})
	got := listing(t, n.source)
	wantProblems(t, "listing", got.Problems)
	wantStatic(t, got, "hash1", 5)
	if !policy.Evictable(podNamed(t, got, "p").API) {
		t.Error("the other pod is not evictable")
	}
	if got.Complete {
		t.Error("the list is complete, although nobody knows the uid of a static pod that has not run yet")
	}
	n.Add(staticPod("hash2", "other"))
	if got = listing(t, n.source); !got.Complete {
		t.Errorf("the list is not complete, although all is known: %v", got.Pods)
	}
}

// Who names a pod like a static one gets neither its manifest nor its immunity.
func TestOnlyAPodFromAFileIsStatic(t *testing.T) {
	n := newKubeletNode(t)
	put(t, n.static, "etcd.yaml", staticYAML("etcd"))
	put(t, n.dir, "likeness.yaml", strings.Replace(podYAML("u", "etcd-node-1"), "default", "kube-system", 1))
	n.Add(fakecri.Pod{UID: "u", Namespace: "kube-system", Name: "etcd-node-1", Annotations: map[string]string{"kubernetes.io/config.source": "api"}, Containers: []fakecri.Container{{Name: "c"}}})
	got := listing(t, n.source)
	if p := podNamed(t, got, "u"); !p.HasManifest || !policy.Evictable(p.API) {
		t.Errorf("%+v, want its own manifest, and evictable", p)
	}
	wantProblems(t, "listing", got.Problems, filepath.Join(n.dir, "likeness.yaml")+": static pod kube-system/etcd-node-1 is also in "+
		filepath.Join(n.static, "etcd.yaml")+"; want one file for each pod (used all the same)")
}

func TestAStaticPodInBothDirectories(t *testing.T) {
	n := newKubeletNode(t)
	put(t, n.static, "etcd.yaml", staticYAML("etcd", "spec: {priority: 5}"))
	put(t, n.static, "second.yaml", staticYAML("etcd", "spec: {priority: 6}"))
	put(t, n.dir, "etcd.yaml", strings.Replace(podYAML("hash", "etcd-node-1", "spec: {priority: 7}"), "default", "kube-system", 1))
	n.Add(staticPod("hash", "etcd"))
	got := listing(t, n.source)
	wantStatic(t, got, "hash", 5)
	first := filepath.Join(n.static, "etcd.yaml")
	wantProblems(t, "listing", got.Problems,
		filepath.Join(n.static, "second.yaml")+": static pod kube-system/etcd-node-1 is also in "+first+", which is used; want one file for each pod",
		filepath.Join(n.dir, "etcd.yaml")+`: metadata.uid "hash" is also in `+first+", which is used; want one file for each pod")
}

// When its manifest changes the kubelet ends a static pod and runs another one.
func TestAStaticPodThatChangesIsAnotherPod(t *testing.T) {
	n := newKubeletNode(t)
	put(t, n.static, "etcd.yaml", staticYAML("etcd", "spec: {priority: 5}"))
	n.Add(staticPod("old", "etcd"))
	wantStatic(t, listing(t, n.source), "old", 5)
	put(t, n.static, "etcd.yaml", staticYAML("etcd", "spec: {priority: 66, terminationGracePeriodSeconds: 0}"))
	wantStatic(t, listing(t, n.source), "old", 5)
	n.Add(staticPod("new", "etcd"))
	got := listing(t, n.source)
	wantStatic(t, got, "old", 5)
	wantStatic(t, got, "new", 66)
	n.Remove("old")
	ended := staticPod("old", "etcd")
	ended.NotReady, ended.Containers = true, nil
	n.Add(ended)
	got = listing(t, n.source)
	if want := []pods.Ended{{UID: "old", State: eviction.PodDeleted}}; !slices.Equal(got.Ended, want) || !got.Complete {
		t.Errorf("ended %v, complete %v, want %v: the new one has its manifest", got.Ended, got.Complete, want)
	}
	testos.Remove(t, filepath.Join(n.static, "etcd.yaml"))
	got = listing(t, n.source)
	wantStatic(t, got, "new", 66)
	wantProblems(t, "without a file", got.Problems, n.static+": 1 running pod has lost its manifest (kube-system/etcd-node-1); what was read before is still used")
	n.Remove("new")
	wantProblems(t, "ended", listing(t, n.source).Problems)
}

func TestAStaticManifestMaySayItsUID(t *testing.T) {
	n := newKubeletNode(t)
	put(t, n.static, "etcd.yaml", strings.Replace(staticYAML("etcd", "spec: {priority: 5}"), "{name", "{uid: own, name", 1))
	got := listing(t, n.source)
	if want := []pods.Ended{{UID: "own", State: eviction.PodActive}}; !slices.Equal(got.Ended, want) {
		t.Errorf("not run yet: ended %v, want %v", got.Ended, want)
	}
	n.Add(staticPod("own", "etcd"))
	n.Add(staticPod("before", "etcd"))
	got = listing(t, n.source)
	wantStatic(t, got, "own", 5)
	if p := podNamed(t, got, "before"); p.HasManifest {
		t.Errorf("%+v has the manifest of another uid", p)
	}
	put(t, n.static, "etcd.yaml", strings.Replace(staticYAML("etcd", "spec: {priority: 77}"), "{name", "{uid: own, name", 1))
	wantStatic(t, listing(t, n.source), "own", 77)
}

// A static manifest with the uid of another pod took the place of that pod's own.
func TestAStaticManifestDoesNotDisplaceThatOfAnotherPod(t *testing.T) {
	n := newKubeletNode(t)
	put(t, n.static, "etcd.yaml", strings.Replace(staticYAML("etcd", "spec: {priority: 5}"), "{name", "{uid: u, name", 1))
	put(t, n.dir, "plain.yaml", podYAML("u", "plain", "spec: {priority: 7}"))
	n.Add(fakecri.Pod{UID: "u", Namespace: "default", Name: "plain", Containers: []fakecri.Container{{Name: "c"}}})
	got := listing(t, n.source)
	if p := podNamed(t, got, "u"); p.Row.Priority != 7 || !policy.Evictable(p.API) {
		t.Errorf("%+v, want its own manifest", p)
	}
	wantProblems(t, "listing", got.Problems, filepath.Join(n.static, "etcd.yaml")+
		`: metadata.uid "u" belongs to the running pod default/plain, which is not the static pod kube-system/etcd-node-1`)
}

// A static pod of which only containers are left is still one.
func TestAStaticPodThatLosesItsSandboxStaysStatic(t *testing.T) {
	n := newKubeletNode(t)
	put(t, n.static, "etcd.yaml", staticYAML("etcd", "spec: {priority: 5}"))
	n.Add(staticPod("hash", "etcd"))
	listing(t, n.source)
	n.Remove("hash")
	gone := staticPod("hash", "etcd")
	gone.SandboxGone = true
	n.Add(gone)
	wantStatic(t, listing(t, n.source), "hash", 5)
}

func TestStaticPodsOfASingleFile(t *testing.T) {
	n := newKubeletNode(t)
	file := filepath.Join(n.static, "only")
	source := New(criclient.NewLister(n.Client(), nil), NewManifests(n.dir, defaultRules).WithStatic(nodefs.FS{}, file, "node-1"))
	const without = ": directory of static pods does not exist: no static pod is known by its manifest (staticPodPath)"
	wantProblems(t, "not there", source.Problems(), file+without)
	put(t, n.static, "only", staticYAML("etcd", "spec: {priority: 5}"))
	put(t, n.static, "another", "rubbish")
	n.Add(staticPod("hash", "etcd"))
	got := listing(t, source)
	wantProblems(t, "there", got.Problems)
	wantStatic(t, got, "hash", 5)
	put(t, n.static, "only", "a: [")
	if got = listing(t, source); len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Error(), file+": ") || got.Complete {
		t.Errorf("broken: complete %v, problems %v", got.Complete, got.Problems)
	}
	wantStatic(t, got, "hash", 5)
}

func TestOneBadStaticManifestDoesNotCostTheOthers(t *testing.T) {
	n := newKubeletNode(t)
	put(t, n.static, "etcd.yaml", staticYAML("etcd"))
	put(t, n.static, "nameless", staticYAML(""))
	put(t, n.static, "large", staticYAML("large")+strings.Repeat("# padding\n", maxManifestBytes/10))
	n.Add(staticPod("hash", "etcd"))
	got := listing(t, n.source)
	wantStatic(t, got, "hash", 0)
	wantProblems(t, "listing", got.Problems,
		filepath.Join(n.static, "large")+": is larger than 1 MiB",
		filepath.Join(n.static, "nameless")+": metadata.name is missing, want the one to which the kubelet adds the node's")
}
