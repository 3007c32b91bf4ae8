package kubernetes_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// lacks has what evictd's log says without a capability. The others are for what this cluster does not
// have: pages that a plugin locks, and processes of other users that outlive their container.
var lacks = map[string]string{
	"CHOWN":        "chown",
	"DAC_OVERRIDE": "permission denied",
	"SETGID":       "operation not permitted",
	"SETPCAP":      "evictd needs CAP_SETPCAP",
	"SETUID":       "operation not permitted",
}

// Without a capability a plugin does not start, and evictd says why; pods are evicted all the same.
func TestCapabilitiesOfTheChart(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("a rollout for each capability is part of make nightly")
	}
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	h := newChart(t, c)
	h.values["dryRun"] = false
	h.values["plugins"] = []any{map[string]any{"name": "oldest", "image": os.Getenv("EVICTD_IMAGE_NAME"), "path": "/usr/libexec/evictd/examples/oldest", "user": "evictd-plugin", "required": false}}
	h.values["config"] = map[string]any{
		"cgroupRoot": c.CgroupRoot, "evictionHard": memoryAlone(leaveToEvictd(t, c, kubelet)), "healthzBindAddress": h.probed,
		"evictionPressureTransitionPeriod": "1s", // the next pod must be scheduled
		"plugins":                          map[string]any{"disk": map[string]any{"required": false}},
	}
	h.helm(t, "install")
	raw, err := os.ReadFile("../../../deploy/chart/values.yaml")
	must(t, err)
	var values struct{ Capabilities struct{ Add []string } }
	must(t, yaml.Unmarshal(raw, &values))
	for without, want := range lacks {
		h.values["capabilities"] = map[string]any{"add": slices.DeleteFunc(slices.Clone(values.Capabilities.Add), func(c string) bool { return c == without })}
		h.helm(t, "upgrade")
		name := "without-" + strings.ToLower(strings.ReplaceAll(without, "_", "-"))
		spec, station := newHog(t, c, name, 1536)
		must(t, c.Apply(t.Context(), barePod(name, spec)))
		awaitPod(soon(t), t, c, name, func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
		must(t, station.Release(soon(t)))
		evicted(t, awaitPod(soon(t), t, c, name, endedWithReason))
		logs, err := c.Kubectl(soon(t), "", "-n", "evictd", "logs", "ds/evictd")
		must(t, err)
		var said string
		for line := range strings.Lines(logs) {
			var r struct{ Msg, Error, Plugin string }
			if json.Unmarshal([]byte(line), &r) == nil && r.Msg == "plugin did not start" {
				said = r.Plugin + ": " + r.Error
			}
		}
		t.Logf("  without %s: %s", without, said)
		if !strings.Contains(said, want) {
			t.Errorf("without %s the log says %q, want %q", without, said, want)
		}
		_, err = c.Kubectl(soon(t), "", "delete", "pod", name, "--wait")
		must(t, err)
	}
	h.helm(t, "uninstall")
}
