package kubernetes_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// fills writes 28 MB to its volume.
const fills = "head -c 28000000 /dev/urandom >/scratch/file; sleep 100000"

// Images that are to stay stay before the pod goes, beside a kubelet that has them. Without the settings the images go.
func TestImagesStayBesideAKubelet(t *testing.T) {
	const mib, node = 1 << 20, "node"
	c := start(t, cluster.Options{
		Filesystems: []stack.Filesystem{{Path: node, Type: "ext4", Bytes: 1200 * mib}},
		KubeletRoot: "node/kubelet", PodLogs: "node/logs", RuntimeRoot: "node/containerd",
		Kubelet: map[string]any{"evictionHard": cluster.CalmThresholds(), "imageGCHighThresholdPercent": 100},
	})
	rights := account(t, c)
	must(t, c.Apply(soon(t), barePod("chatty", filling(fills))))
	chatty := awaitPod(soon(t), t, c, "chatty", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	imported, pulled := "registry.local/team/imported:1", "registry.local/other/unused:1"
	for i, name := range []string{imported, pulled} {
		image := stack.BusyboxImage(name, nil)
		image.FillerFiles, image.FillerBytes = 1+i, 20*mib
		must(t, c.Import(soon(t), image))
	}
	// short starts evictd with a disk that lacks so much.
	short := func(bytes uint64, disk map[string]any) *evictd.Process {
		disk["imageMinimumGCAge"] = "0s"
		free := statfs(t, c)
		return beside(t, c, rights, map[string]any{
			"plugins":      map[string]any{"disk": map[string]any{"config": disk}},
			"evictionHard": map[string]any{"nodefs.available": strconv.FormatUint(free.Bavail*uint64(free.Bsize)+bytes, 10)},
		})
	}
	await := func(p *evictd.Process, msg string) evictd.Record {
		t.Helper()
		r, err := p.Await(soon(t), func(r evictd.Record) bool { return r.Msg == msg })
		must(t, err)
		return r
	}

	p := short(10*mib, map[string]any{"keepImages": []string{"registry.local/team/*"}})
	await(p, "reclaim was enough, no pod has to go")
	for _, r := range p.Records("reclaim step ended") {
		t.Logf("  %s: %s", r.String("step"), r.String("message"))
	}
	if images, _ := onDisk(t, c); !slices.Contains(images, imported) || slices.Contains(images, pulled) {
		t.Errorf("images %q, want %s kept and %s gone", images, imported, pulled)
	}
	must(t, p.Stop())

	p = short(10*mib, map[string]any{})
	await(p, "reclaim was enough, no pod has to go")
	if images, _ := onDisk(t, c); slices.Contains(images, imported) {
		t.Errorf("images %q, want %s gone without keepImages", images, imported)
	}
	spared(t, c, chatty, p)
	must(t, p.Stop())

	p = short(6*mib, map[string]any{})
	victim := awaitPod(soon(t), t, c, "chatty", endedWithReason)
	if victim.Status.Reason != "Evicted" {
		t.Errorf("the pod is %s %s", victim.Status.Phase, victim.Status.Reason)
	}
	must(t, p.Stop())
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for ctx := soon(t); !is(); {
		select {
		case <-ctx.Done():
			t.Fatalf("not seen in time: %s", what)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
