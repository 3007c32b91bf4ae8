package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/agent"
)

// shared has everything on one filesystem.
func shared(e engine) stack.Options {
	return stack.Options{
		Filesystems: []stack.Filesystem{{Path: "node", Type: "ext4", Bytes: 800 * mib, Mkfs: []string{"-N", "24000"}}},
		KubeletRoot: "node/kubelet", PodLogs: "node/logs", RuntimeRoot: "node/containerd", Programs: e.programs,
	}
}

// dedicated has images and writable layers on a filesystem of their own: an XFS
// with room for few inodes.
func dedicated(e engine) stack.Options {
	return stack.Options{
		Filesystems: []stack.Filesystem{
			{Path: "node", Type: "ext4", Bytes: 300 * mib, Mkfs: []string{"-N", "8000"}},
			{Path: "images", Type: "xfs", Bytes: 800 * mib, Mkfs: []string{"-i", "maxpct=1"}},
		},
		KubeletRoot: "node/kubelet", PodLogs: "node/logs", RuntimeRoot: "images/containerd", Programs: e.programs,
	}
}

// Everything on one ext4 filesystem: what is not needed goes first, and only when
// that is not enough a pod does.
func TestSharedFilesystem(t *testing.T) {
	for _, e := range engines(t) {
		t.Run(e.name, func(t *testing.T) {
			n := newSite(t, shared(e))
			for _, of := range []resourceKind{bytesOf, inodesOf} {
				t.Run("nodefs."+of.signal, func(t *testing.T) { relieve(t, n, "nodefs."+of.signal, "node", of) })
			}
		})
	}
}

// Images and writable layers on an XFS filesystem of their own: imagefs is relieved as
// nodefs is elsewhere, and for nodefs there is nothing to reclaim.
func TestDedicatedImageFilesystem(t *testing.T) {
	for _, e := range engines(t) {
		t.Run(e.name, func(t *testing.T) {
			n := newSite(t, dedicated(e))
			for _, of := range []resourceKind{bytesOf, inodesOf} {
				t.Run("imagefs."+of.signal, func(t *testing.T) { relieve(t, n, "imagefs."+of.signal, "images", of) })
				t.Run("nodefs."+of.signal, func(t *testing.T) { evictStraight(t, n, of) })
			}
		})
	}
}

func engines(t *testing.T) []engine {
	t.Helper()
	require(t)
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		return []engine{modern(t)}
	}
	return []engine{debian, modern(t)}
}

// relieve is the story of one signal: relief by reclaim alone, then an eviction.
func relieve(t *testing.T, n *site, signal, filesystem string, of resourceKind) {
	disk := filepath.Join(n.Dir, filesystem)
	l := leave(t, n.Stack, of)
	weight := newBallast(t, disk)
	t.Cleanup(func() { clearAway(t, n, weight) })
	left := freeOn(t, disk, of)
	threshold := left + l.freeable/2
	t.Logf("  %s: %s left; unused images and dead containers hold about %s; threshold %s",
		signal, of.show(left), of.show(l.freeable), of.show(threshold))
	n.start(t, map[string]any{"evictionHard": map[string]string{signal: "1"}})
	n.log.awaitPasses(t)
	must(t, os.Remove(l.job.Manifest))

	n.log.chapter(t, "below the threshold with things to throw away:")
	setThreshold(t, n.Stack, n.agent, signal, threshold)
	n.log.await(t, "reclaim was enough, no pod has to go")
	n.log.awaitCalm(t)
	n.log.wantEvicted(t)
	l.checkGone(t, n.Stack)

	threshold = freeOn(t, disk, of) / 3
	setThreshold(t, n.Stack, n.agent, signal, threshold)
	n.log.chapter(t, fmt.Sprintf("below the threshold, of %s now, with nothing to throw away:", of.show(threshold)))
	n.log.awaitPasses(t)
	pods := crowd(t, n.Stack, of, func(p *stack.Pod, units int64) { must(t, p.Exec(t.Context(), "main", of.take("", units*of.unit))) })
	awaitStats(t, n.Runtime)
	weight.fillTo(t, of, threshold+10*of.unit)
	cross(t, pods["greedy"], of.take("/more", 20*of.unit))
	n.log.awaitVictim(t, signal, "greedy", pods)
	l.checkAlive(t)
}

// setThreshold has evictd reload its configuration with one hard threshold.
func setThreshold(t *testing.T, n *stack.Stack, p *evictd.Process, signal string, value int64) {
	t.Helper()
	must(t, agent.Reload(n, p, map[string]any{"evictionHard": map[string]string{signal: strconv.FormatInt(value, 10)}}))
}

// evictStraight is the story of nodefs where images and layers are elsewhere: what
// pods write to volumes and logs counts, and the first answer is an eviction.
func evictStraight(t *testing.T, n *site, of resourceKind) {
	disk := filepath.Join(n.Dir, "node")
	weight := newBallast(t, disk)
	t.Cleanup(func() { clearAway(t, n, weight) })
	left := freeOn(t, disk, of)
	threshold := left / 2
	n.start(t, map[string]any{"evictionHard": map[string]string{"nodefs." + of.signal: strconv.FormatInt(threshold, 10)}})
	n.log.chapter(t, "below the threshold on a filesystem without images:")
	pods := crowd(t, n.Stack, of, func(p *stack.Pod, units int64) {
		must(t, p.Exec(t.Context(), "main", of.take("/volume", units*of.unit/2)))
	})
	if of.name == bytesOf.name {
		must(t, pods["greedy"].Exec(t.Context(), "main", linesToLog(10*of.unit)))
	}
	awaitStats(t, n.Runtime)
	weight.fillTo(t, of, threshold+10*of.unit)
	cross(t, pods["greedy"], of.take("/volume", 20*of.unit))
	n.log.awaitVictim(t, "nodefs."+of.signal, "greedy", pods)
	if steps := n.log.records(stepEnded); len(steps) > 0 {
		t.Errorf("%d steps of reclaim ran, want none: nothing on this filesystem is theirs", len(steps))
	}
}

// cross runs a script in a pod that crosses a threshold or a limit: the pod may be evicted before the script has ended.
func cross(t *testing.T, p *stack.Pod, script string) {
	t.Helper()
	if err := p.Exec(t.Context(), "main", script); err != nil {
		t.Logf("    the crossing script ended early: %v", err)
	}
}

// crowd runs pods of which only "greedy" is the right one to evict: the most
// important uses more, the modest one stays within its request, the small one
// uses less.
func crowd(t *testing.T, n *stack.Stack, of resourceKind, use func(p *stack.Pod, units int64)) map[string]*stack.Pod {
	t.Helper()
	pods := map[string]*stack.Pod{}
	for _, c := range []struct {
		sketch
		units int64
	}{
		{sketch{name: "important", priority: 1000}, 60},
		{sketch{name: "modest", request: "100Mi"}, 40},
		{sketch{name: "greedy"}, 45},
		{sketch{name: "small"}, 8},
	} {
		name := c.name
		c.name += "-" + of.name
		c.emptyDirs = map[string]string{"volume": ""}
		pods[name] = run(t, n, c.sketch)
		use(pods[name], c.units)
	}
	return pods
}

// awaitStats waits until the runtime has looked at all writable layers. It does so
// every second here, every ten as it comes: so old are its figures at most, for
// evictd as for a kubelet.
func awaitStats(t *testing.T, runtime runtimeapi.RuntimeServiceClient) {
	t.Helper()
	began := time.Now().UnixNano()
	eventually(t, "the runtime has new figures of all containers", func() (bool, error) {
		list, err := runtime.ListContainerStats(t.Context(), &runtimeapi.ListContainerStatsRequest{})
		for _, s := range list.GetStats() {
			if s.GetWritableLayer().GetTimestamp() < began {
				return false, err
			}
		}
		return err == nil, err
	})
}

// clearAway ends evictd and all pods, so that the next story begins anew.
func clearAway(t *testing.T, n *site, weight ballast) {
	t.Helper()
	if t.Failed() && n.agent != nil {
		t.Logf("the end of evictd's log:\n%s", n.agent.LogTail())
	}
	n.stop(t)
	weight.clear(t)
	must(t, removePods(context.WithoutCancel(t.Context()), n.Stack))
}

func (of resourceKind) show(amount int64) string {
	if of.name == inodesOf.name {
		return fmt.Sprintf("%d inodes", amount)
	}
	return fmt.Sprintf("%.1f MiB", float64(amount)/mib)
}
