package kubernetes_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/stack"
)

// onScratch is the spec of a pod with a directory of the node's at /data.
func onScratch(dir, options, script string) string {
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, volumes: [{name: data, hostPath: {path: %q, type: DirectoryOrCreate}}], containers: [
      {name: main, image: %s, imagePullPolicy: Never, volumeMounts: [{name: data, mountPath: /data%s}], command: [sh, -c, %q]}]}`, dir, stack.PodImage, options, script)
}

// A scratch disk is a signal: when it is full the pod goes that has files there, and never another. If no pod has, none goes.
// EVICTD_SCRATCH_ROUNDS is the number of pods that fill it.
func TestAScratchDiskTakesThePodThatFilledIt(t *testing.T) {
	const mib = 1 << 20
	c := start(t, withDisks(nil))
	disk := filepath.Join(c.Dir, "scratch")
	others := []*v1.Pod{
		deploy(t, c, "calm", sleeper()),
		deploy(t, c, "writes-elsewhere", filling("head -c 50000000 /dev/zero >/scratch/file; sleep 100000")),
		deploy(t, c, "reads", onScratch(disk, ", readOnly: true", "sleep 100000")),
		deploy(t, c, "inherits", onScratch(c.Dir, ", mountPropagation: HostToContainer", "sleep 100000")),
	}
	h := newChart(t, c)
	h.values["dryRun"] = false
	h.values["config"] = map[string]any{
		"cgroupRoot": c.CgroupRoot, "healthzBindAddress": h.probed, "evictionPressureTransitionPeriod": "1s",
		"evictionHard": memoryAlone(map[string]any{"memory.available": "100Mi", "evictd.io/scratch.available": "60Mi"}),
		"plugins":      map[string]any{"mounts": map[string]any{"config": map[string]any{"paths": map[string]any{"scratch": disk}}}},
	}
	h.helm(t, "install")
	evictd := func(args ...string) string {
		out, err := c.Kubectl(soon(t), "", append([]string{"-n", "evictd", "exec", "ds/evictd", "-c", "evictd", "--", "evictctl"}, args...)...)
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		return out
	}
	t.Cleanup(func() {
		if t.Failed() {
			logs, _ := c.Kubectl(context.WithoutCancel(t.Context()), "", "-n", "evictd", "logs", "ds/evictd", "-c", "evictd")
			t.Logf("log of evictd:\n%s", logs)
		}
	})
	for i := range number(t, "EVICTD_SCRATCH_ROUNDS", 1) {
		app := fmt.Sprint("writer-", i)
		began := time.Now()
		must(t, c.Apply(soon(t), barePod(app, onScratch(filepath.Join(disk, app), "", "dd if=/dev/zero of=/data/file bs=1M count=190 2>/dev/null; sleep 100000"))))
		victim := awaitPod(soon(t), t, c, app, endedWithReason)
		t.Logf("  %s went %.1f s after it was made: %s", app, time.Since(began).Seconds(), victim.Status.Message)
		if victim.Status.Reason != "Evicted" || !strings.HasPrefix(victim.Status.Message, "The node was low on resource: evictd.io/scratch. ") {
			t.Errorf("pod %s is %s, %q, %q", app, victim.Status.Phase, victim.Status.Reason, victim.Status.Message)
		}
		_, err := c.Kubectl(soon(t), "", "delete", "pod", app, "--wait")
		must(t, err)
		must(t, os.RemoveAll(filepath.Join(disk, app)))
	}
	must(t, os.WriteFile(filepath.Join(disk, "of-the-node"), make([]byte, 190*mib), 0o600))
	const none = "mounts names none of"
	eventually(t, "evictd has no pod to evict", func() bool { return strings.Contains(evictd("evictions", "--all"), none) })
	for _, pod := range others {
		unharmed(t, c, pod)
	}
}
