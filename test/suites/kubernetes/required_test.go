package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A plugin that is listed and does not serve keeps the pod unready, and an event about the pod says
// why, once.
func TestAListedPluginThatIsMissingStopsARollout(t *testing.T) {
	c := start(t, cluster.Options{})
	h := newChart(t, c)
	h.values["config"] = map[string]any{"cgroupRoot": c.CgroupRoot, "evictionHard": memoryAlone(map[string]any{"memory.available": "1Mi"}), "healthzBindAddress": h.probed}
	h.values["besideKubelet"] = map[string]any{"check": false}
	h.helm(t, "install")
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := c.Kubectl(soon(t), "", append([]string{"-n", "evictd"}, args...)...)
		must(t, err)
		return out
	}
	right := kubectl("get", "configmap", "evictd", "-o", `jsonpath={.data.evictd\.yaml}`)
	configure := func(text string) {
		t.Helper()
		patch, err := json.Marshal(map[string]any{"data": map[string]string{"evictd.yaml": text}})
		must(t, err)
		kubectl("patch", "configmap", "evictd", "--type", "merge", "--patch", string(patch))
		kubectl("rollout", "restart", "ds/evictd")
	}
	var config map[string]any
	must(t, yaml.Unmarshal([]byte(right), &config))
	config["plugins"].(map[string]any)["acme"] = nil
	wrong, err := yaml.Marshal(config)
	must(t, err)
	configure(string(wrong))

	const why = "plugin acme: is not there: want /run/evictd-plugins/acme or /run/evictd-plugins/acme.sock, or plugins.acme.required: false"
	var events []string
	for ctx := soon(t); len(events) == 0; must(t, stack.Pause(ctx, 250*time.Millisecond)) {
		events = strings.Split(strings.TrimSpace(kubectl("get", "events", "--field-selector", "reason=PluginNotServing", "-o",
			`jsonpath={range .items[*]}{.type} {.involvedObject.name} {.involvedObject.uid} {.count} {.message}{"\n"}{end}`)), "\n")
		if events[0] == "" {
			events = nil
		}
	}
	pods := kubectl("get", "pods", "-l", "app.kubernetes.io/name=evictd", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid}:{.status.containerStatuses[0].ready}{end}`)
	pod, isReady, _ := strings.Cut(pods, ":")
	if want := fmt.Sprintf("Warning %s 1 %s", pod, why); len(events) != 1 || events[0] != want || isReady != "false" {
		t.Errorf("events %q of %s, want %q, and the pod not ready", events, pods, want)
	}
	if out := kubectl("describe", "pod", "-l", "app.kubernetes.io/name=evictd"); !strings.Contains(out, why) {
		t.Errorf("kubectl describe pod: %s", out)
	}
	_, err = c.Kubectl(soon(t), "", "-n", "evictd", "exec", "ds/evictd", "--", "/usr/bin/evictctl", "check", "--config", "/etc/evictd/evictd.yaml", "--start-plugins=false", "--node-name", c.Node)
	if err == nil || strings.Count(err.Error(), why) != 1 {
		t.Errorf("evictctl check: %v, want once %q", err, why)
	}
	if s := h.pluginNames(t); !strings.Contains(s, "\nacme ") || !strings.Contains(s, "missing") {
		t.Errorf("evictctl plugins: %s", s)
	}

	configure(right)
	kubectl("rollout", "status", "ds/evictd", "--timeout", "90s")
	h.helm(t, "uninstall")
}
