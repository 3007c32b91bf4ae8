package kubernetes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A change of values replaced the pods on all nodes one after another; the volume of a ConfigMap follows within a minute.
func TestAChangeOfValuesIsReloaded(t *testing.T) {
	const most, refused = 3 * time.Second, `"msg":"new configuration refused, the former one stays in force"`
	c := start(t, cluster.Options{})
	h := newChart(t, c)
	config := map[string]any{
		"cgroupRoot": c.CgroupRoot, "healthzBindAddress": h.probed, "evictionHard": memoryAlone(map[string]any{"memory.available": "100Mi"}),
	}
	h.values["config"] = config
	h.helm(t, "install")
	viewOf(t, h.runDir)
	pod := h.podUID(t)
	change := func(what, key string, value any, state string) {
		t.Helper()
		config[key] = value
		h.helm(t, "upgrade")
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		for v := ask(ctx, t, h.runDir); v.plugin("disk") != state; v = ask(ctx, t, h.runDir) {
			must(t, stack.Pause(ctx, 50*time.Millisecond))
		}
		t.Logf("  %s %.2f s after helm upgrade", what, time.Since(began).Seconds())
		if now := h.podUID(t); now != pod {
			t.Errorf("%s: pod %s, want still %s", what, now, pod)
		}
	}
	change("disabled", "plugins", map[string]any{"disk": map[string]any{"disabled": true}}, "disabled")
	change("enabled", "plugins", map[string]any{"disk": map[string]any{"disabled": false}}, "running")

	config["plugins"] = map[string]any{"disk": map[string]any{"disabled": true}}
	h.values["dryRun"] = false // goes from node to node
	h.helm(t, "upgrade")
	if now := h.podUID(t); now == pod {
		t.Errorf("pod %s is still there after another change", pod)
	}
	if v := viewOf(t, h.runDir); v.plugin("disk") != "disabled" || v.DryRun {
		t.Errorf("disk is %s and dryRun %t, want disabled and false", v.plugin("disk"), v.DryRun)
	}

	// The schema refuses this of helm.
	_, err := c.Kubectl(soon(t), "", "-n", "evictd", "patch", "configmap", "evictd", "--type=merge", "--patch", `{"data": {"evictd.yaml": "dryrun: true"}}`)
	must(t, err)
	h.awaitLog(t, refused, `ConfigMap evictd/evictd: dryrun: unknown field, want \"dryRun\"`)
	if v := ask(soon(t), t, h.runDir); v.plugin("disk") != "disabled" || v.DryRun {
		t.Errorf("disk is %s and dryRun %t, want disabled and false as before", v.plugin("disk"), v.DryRun)
	}
	h.helm(t, "uninstall")
}

func (v view) plugin(name string) (state string) {
	for _, p := range v.Plugins {
		if p.Name == name {
			state = p.State
		}
	}
	return state
}

func (h *chart) podUID(t *testing.T) string {
	t.Helper()
	uid, err := h.c.Kubectl(soon(t), "", "-n", "evictd", "get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
	must(t, err)
	return uid
}

// awaitLog waits for a line of evictd's log with all of parts.
func (h *chart) awaitLog(t *testing.T, parts ...string) {
	t.Helper()
	for ctx := soon(t); ; {
		logs, err := h.c.Kubectl(ctx, "", "-n", "evictd", "logs", "ds/evictd")
		must(t, err)
	lines:
		for line := range strings.Lines(logs) {
			for _, part := range parts {
				if !strings.Contains(line, part) {
					continue lines
				}
			}
			return
		}
		must(t, stack.Pause(ctx, 100*time.Millisecond))
	}
}
