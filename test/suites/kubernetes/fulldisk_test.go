package kubernetes_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// logs writes 5 MB to its log seven times, each of which the kubelet rotates, and once more whenever the file more is made in
// its volume.
const logs = `part() { head -c 4000000 /dev/urandom | base64; sleep 4; }; for i in $(seq 7); do part; done; while :; do [ -e /scratch/more ] && rm /scratch/more && part; sleep 1; done`

// Rotated logs go before pods, images that are to stay stay, beside a kubelet that rotates those logs and has those
// images. Without the settings the pod and the images go.
func TestLogsGoAndImagesStayBesideAKubelet(t *testing.T) {
	const mib, node = 1 << 20, "node"
	c := start(t, cluster.Options{
		Filesystems: []stack.Filesystem{{Path: node, Type: "ext4", Bytes: 1200 * mib}},
		KubeletRoot: "node/kubelet", PodLogs: "node/logs", RuntimeRoot: "node/containerd",
		Kubelet: map[string]any{
			"evictionHard": cluster.CalmThresholds(), "imageGCHighThresholdPercent": 100,
			"containerLogMaxSize": "4Mi", "containerLogMaxFiles": 12, "containerLogMonitorInterval": "3s",
		},
	})
	rights := account(t, c)
	must(t, c.Apply(soon(t), barePod("chatty", filling(logs))))
	chatty := awaitPod(soon(t), t, c, "chatty", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	dir := filepath.Join(c.Dir, "node/logs", "default_chatty_"+string(chatty.UID), "main")
	rotated := func() (names []string) {
		all, err := filepath.Glob(dir + "/0.log.*")
		must(t, err)
		return slices.DeleteFunc(all, func(name string) bool { return strings.HasSuffix(name, ".tmp") })
	}
	eventually(t, "the kubelet has rotated the log six times", func() bool { return len(rotated()) >= 6 })
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

	before := rotated()
	p := short(6*mib, map[string]any{"logGC": true})
	await(p, "reclaim was enough, no pod has to go")
	left := rotated()
	for _, r := range p.Records("reclaim step ended") {
		t.Logf("  %s: %s", r.String("step"), r.String("message"))
	}
	if len(left) >= len(before) || len(left) == 0 || !slices.Contains(left, before[len(before)-1]) {
		t.Errorf("rotated logs %q, before %q: want the oldest gone", left, before)
	}
	if images, _ := onDisk(t, c); !slices.Contains(images, imported) || !slices.Contains(images, pulled) {
		t.Errorf("images %q went before logs", images)
	}
	// The kubelet goes on with what is left.
	must(t, os.WriteFile(filepath.Join(c.KubeletRootDir, "pods", string(chatty.UID), "volumes/kubernetes.io~empty-dir/scratch/more"), nil, 0o600))
	newest := left[len(left)-1]
	eventually(t, "the kubelet rotates the log again", func() bool { now := rotated(); return len(now) > 0 && now[len(now)-1] > newest })
	_, err := c.Kubectl(soon(t), "", "logs", "chatty", "--tail=1")
	must(t, err)
	must(t, p.Stop())

	p = short(10*mib, map[string]any{"keepImages": []string{"registry.local/team/*"}})
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

	p = short(6*mib, map[string]any{"logGC": false})
	victim := awaitPod(soon(t), t, c, "chatty", endedWithReason)
	if victim.Status.Reason != "Evicted" {
		t.Errorf("without logGC the pod is %s %s", victim.Status.Phase, victim.Status.Reason)
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
