package kubernetes_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/agent"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// maxWait is for what the cluster is to do: a kubelet looks at its thresholds, and
// writes what it did, every 10 s.
const maxWait = 90 * time.Second

// require skips the test where no cluster can run.
func require(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_K8S") != "1" {
		t.Skip("needs root, containers and the programs of Kubernetes: run make e2e-k8s")
	}
	if err := stack.Preflight(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("this machine cannot run it: %v", err)
		}
		t.Skipf("SKIPPED, NOTHING TESTED: this machine cannot run it: %v", err)
	}
}

// shared are the clusters that tests use one after another: one without options but those of a kubelet, and one with the
// options of the last test that wanted others. The first is always older: a cluster keeps the filesystems of an older one busy,
// and has its settings of the machine.
var shared [2]struct {
	*cluster.Cluster
	options cluster.Options
}

// withDisks are the options of a cluster whose node has disks of its own.
func withDisks(kubelet map[string]any) cluster.Options {
	const mib = 1 << 20
	return cluster.Options{
		Kubelet: kubelet, KubeletRoot: "node/kubelet", PodLogs: "node/logs",
		Filesystems: []stack.Filesystem{
			{Path: "node", Type: "ext4", Bytes: 1200 * mib}, {Path: "scratch", Type: "ext4", Bytes: 256 * mib}, {Path: "data", Type: "ext4", Bytes: 512 * mib},
		},
	}
}

// start returns a cluster as it is after its start, with the programs that `make e2e-k8s` names. A test that failed leaves
// none, and the logs of its parts.
func start(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	require(t)
	built, kubelet, begin := programs(), o.Kubelet, time.Now()
	o.Kubernetes, o.Etcd, o.Containerd, o.Kubelet = built.Kubernetes, built.Etcd, built.Containerd, nil
	at := 0
	if !reflect.DeepEqual(o, built) {
		at = 1
	}
	t.Cleanup(func() { giveBack(t, shared[at].Cluster) })
	if slot := &shared[at]; slot.Cluster != nil && reflect.DeepEqual(slot.options, o) {
		renew(t, slot.Cluster, kubelet)
		t.Logf("  the node is ready again after %.1f s", time.Since(begin).Seconds())
		return slot.Cluster
	}
	if at == 1 && shared[0].Cluster == nil {
		launch(t, 0, built, nil)
	}
	launch(t, at, o, kubelet)
	t.Logf("  the node is ready after %.1f s", time.Since(begin).Seconds())
	return shared[at].Cluster
}

// giveBack restores a cluster at the end of a test, or ends all if the test has failed.
func giveBack(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	if c == nil { // it was not started
		return
	}
	if t.Failed() {
		keepLogs(t, c)
		must(t, closeShared())
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	begin := time.Now()
	if err := c.Initial.Restore(ctx, c.PID("kubelet") != 0); err != nil {
		t.Logf("  what the test leaves is removed with the cluster: %v", err)
		must(t, closeShared())
		return
	}
	t.Logf("  restored in %.1f s", time.Since(begin).Seconds())
}

// launch starts a cluster in place of one with other options.
func launch(t *testing.T, at int, o cluster.Options, kubelet map[string]any) {
	t.Helper()
	slot := &shared[at]
	if former := slot.Cluster; former != nil {
		slot.Cluster = nil
		must(t, former.Close())
	}
	slot.options, o.Kubelet = o, kubelet
	c, err := cluster.Start(t.Context(), o)
	must(t, err)
	slot.Cluster = c
	t.Logf("  a cluster is started: %s", c.Dir)
}

// renew starts the kubelet of a cluster that is used again, with these keys, like those of cluster.Options.Kubelet. It imports the
// images of the start, which evictions for a full disk have deleted, and empties the logs.
func renew(t *testing.T, c *cluster.Cluster, kubelet map[string]any) {
	t.Helper()
	ctx := soon(t)
	for name, put := range map[string]func(context.Context) error{
		stack.SandboxImage: c.ImportBasics, stack.PodImage: c.ImportBasics,
		hog.Image: func(ctx context.Context) error { return hog.Import(ctx, c.Stack, c.Hog) },
	} {
		there, err := c.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		must(t, err)
		if there.Image == nil {
			must(t, put(ctx))
		}
	}
	for _, name := range cluster.Parts {
		must(t, os.Truncate(c.Log(name), 0))
	}
	c.Program = cluster.KubeletProgram{}
	if c.PID("kubelet") == 0 {
		must(t, c.StartPart(ctx, "kubelet"))
	}
	began := time.Now().Truncate(time.Second) // as of a Node's times
	must(t, c.ConfigureKubelet(ctx, kubelet))
	_, err := c.AwaitNode(ctx, func(n *v1.Node) bool {
		return len(n.Spec.Taints) == 0 && slices.ContainsFunc(n.Status.Conditions, func(condition v1.NodeCondition) bool {
			return condition.Type == v1.NodeReady && condition.Status == v1.ConditionTrue && !condition.LastHeartbeatTime.Time.Before(began)
		})
	})
	must(t, err)
}

// closeShared ends all clusters, the last first: each restores the settings of the machine that it found.
func closeShared() (err error) {
	for i := range shared {
		slot := &shared[len(shared)-1-i]
		if slot.Cluster != nil {
			err = errors.Join(err, slot.Close())
			slot.Cluster = nil
		}
	}
	return err
}

// keepLogs copies the logs of the parts to where they outlive the cluster.
func keepLogs(t *testing.T, c *cluster.Cluster) {
	dir := filepath.Join("../../../bin/test/logs", t.Name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Log(err)
		return
	}
	for _, name := range cluster.Parts {
		if raw, err := os.ReadFile(c.Log(name)); err == nil {
			_ = os.WriteFile(filepath.Join(dir, name+".log"), raw, 0o644) // the test has failed already
		}
	}
	t.Logf("logs of the cluster: %s", dir)
}

// startEvictd starts the evictd that `make build` made, with its plugins, beside the kubelet of a cluster, and
// waits until it is ready. It taints no node: on the only one replacements are to run. A key of config that is nil takes
// away what the harness would set. It ends with the test.
func startEvictd(t *testing.T, c *cluster.Cluster, config map[string]any, others ...string) *evictd.Process {
	t.Helper()
	full := map[string]any{"nodeName": c.Node, "logLevel": "debug", "podManifestDir": nil, "nodeConditions": "none"}
	maps.Copy(full, config)
	options, err := agent.Built("../../../bin")
	must(t, err)
	options.Config, options.Plugins = full, append(options.Plugins, others...)
	p, err := agent.Start(t.Context(), c.Stack, options)
	must(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("log of evictd:\n%s", p.LogText())
		}
	})
	return p
}

// soon bounds what a story waits for.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
