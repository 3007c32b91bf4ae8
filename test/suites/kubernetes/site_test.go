package kubernetes_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
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

// start starts a cluster that ends with the test; its programs are those that
// `make e2e-k8s` names. The logs of its parts are kept when the test fails.
func start(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	require(t)
	built := programs()
	o.Kubernetes, o.Etcd, o.Containerd = built.Kubernetes, built.Etcd, built.Containerd
	begin := time.Now()
	c, err := cluster.Start(t.Context(), o)
	must(t, err)
	t.Logf("  the node is ready after %.1f s", time.Since(begin).Seconds())
	t.Cleanup(func() {
		if t.Failed() {
			keepLogs(t, c)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
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
func startEvictd(t *testing.T, c *cluster.Cluster, config map[string]any) *evictd.Process {
	t.Helper()
	full := map[string]any{"nodeName": c.Node, "logLevel": "debug", "podManifestDir": nil, "nodeConditions": "none"}
	maps.Copy(full, config)
	options, err := agent.Built("../../../bin")
	must(t, err)
	options.Config = full
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
