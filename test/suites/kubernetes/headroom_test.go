package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// writeUncached writes a file of which no page stays in the cache, where it would belong to this process.
func writeUncached(name string, data []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
}

// A pod at its own limit reads its data from the disk again and again: as long as no memory is taken no pod goes. A hog beside
// it takes the node below hardMiB, so that it thrashes, and the hog goes, never the pod that stays within its request.
func TestANodeThatThrashesLosesThePodThatGrew(t *testing.T) {
	const mib = 1 << 20
	c := start(t, withDisks(nil))
	file := filepath.Join(c.Dir, "data", "file")
	must(t, writeUncached(file, make([]byte, 300*mib)))
	rereads := fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, volumes: [{name: data, hostPath: {path: %q}}], containers: [
      {name: main, image: %s, imagePullPolicy: Never, resources: {requests: {memory: 100Mi}, limits: {memory: 100Mi}}, volumeMounts: [{name: data, mountPath: /data}],
       command: [sh, -c, "while :; do cat /data/file >/dev/null; done"]}]}`, filepath.Dir(file), stack.PodImage)
	others := []*v1.Pod{deploy(t, c, "calm", sleeper()), deploy(t, c, "at-its-limit", rereads)}
	spec, station := newHog(t, c, "hog", 2048)
	must(t, c.Apply(soon(t), deployment("hog", spec)))
	awaitAvailable(soon(t), t, c, "hog")
	meminfo, err := os.ReadFile("/proc/meminfo")
	must(t, err)
	var availableKiB int
	_, after, _ := strings.Cut(string(meminfo), "MemAvailable:")
	_, err = fmt.Sscan(after, &availableKiB)
	must(t, err)
	h := newChart(t, c)
	h.values["dryRun"] = false
	h.values["config"] = map[string]any{
		"cgroupRoot": c.CgroupRoot, "healthzBindAddress": h.probed, "evictionPressureTransitionPeriod": "5m", "logLevel": "debug",
		"evictionHard": memoryAlone(map[string]any{"memory.available": "100Mi", "evictd.io/memory.headroom": "99%"}),
		"plugins":      map[string]any{"pressure": map[string]any{"config": map[string]any{"hardMiB": availableKiB>>10 - 1280}}},
	}
	h.helm(t, "install")
	evictd := func(args ...string) string {
		out, err := c.Kubectl(soon(t), "", append([]string{"-n", "evictd", "exec", "ds/evictd", "-c", "evictd", "--", "evictctl"}, args...)...)
		must(t, err)
		return out
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := c.Kubectl(context.WithoutCancel(t.Context()), "", "-n", "evictd", "logs", "ds/evictd", "-c", "evictd", "--tail", "300")
			t.Logf("log of evictd:\n%s", logs)
		}
	})
	time.Sleep(10 * time.Second) // of five windows none may hold
	if all := evictd("evictions", "--all"); strings.Contains(all, "headroom") {
		t.Errorf("a pod at its own limit is taken for a node that thrashes:\n%s", all)
	}
	must(t, station.Release(soon(t)))
	began := time.Now()
	victim := awaitPod(soon(t), t, c, "hog", endedWithReason)
	t.Logf("  the hog went %.1f s after it began: %s", time.Since(began).Seconds(), victim.Status.Message)
	if victim.Status.Reason != "Evicted" || !strings.HasPrefix(victim.Status.Message, "The node was low on resource: evictd.io/memory-headroom. ") {
		t.Errorf("the hog is %s, %q, %q", victim.Status.Phase, victim.Status.Reason, victim.Status.Message)
	}
	node, err := c.AwaitNode(soon(t), func(n *v1.Node) bool { return cluster.NodeCondition(n, "evictd.io/MemoryStall") == v1.ConditionTrue })
	must(t, err)
	if cluster.NodeCondition(node, v1.NodeReady) != v1.ConditionTrue {
		t.Error("the node is not ready")
	}
	for _, pod := range others {
		unharmed(t, c, pod)
	}
	if all := evictd("evictions"); strings.Count(all, "memory.headroom") != 1 {
		t.Errorf("want one eviction for the headroom:\n%s", all)
	}
}
