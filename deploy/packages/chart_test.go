package packages

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const chart = "../chart"

// helm runs helm on the chart.
func helm(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	program := os.Getenv("EVICTD_HELM")
	if program == "" {
		t.Skip("needs helm: run make packages")
	}
	raw, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	return string(raw), err
}

func TestTheChartIsLinted(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", chart); err != nil || strings.Contains(out, "WARNING") {
		t.Errorf("%v: %s", err, out)
	}
}

// Who changes the chart has to run make manifests.
func TestManifestsAreThoseOfTheChart(t *testing.T) {
	if _, err := helm(t, "version"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run(t, ".", "./manifests.sh", os.Getenv("EVICTD_HELM"), dir)
	for _, name := range []string{"rbac/role.yaml", "rbac/policy.yaml", "rbac/delete-pods.yaml", "rbac/node-conditions.yaml", "rbac/metrics.yaml", "manifests/evictd.yaml"} {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("deploy/%s differs from the chart, run make manifests", name)
		}
	}
}

// The schema refuses what would be ignored or do harm, and names the value.
func TestTheSchemaRefusesWrongValues(t *testing.T) {
	const plugin, both = "plugins[0].name=a,plugins[0].image=b,plugins[0].", "config.metricsBindAddress=0.0.0.0:10269,podMonitor.enabled=true,serviceMonitor.enabled=true"
	for value, names := range map[string]string{
		plugin + "container=false":                           "missing property 'path'",
		plugin + "path=/a,plugins[0].args[0]=x":              "left out: it is for a plugin with container: true",
		plugin + "container=true,plugins[0].memoryLimit=1Gi": "left out: of a container it is that of the container",
		plugin + "path=/a,plugins[0].writablePaths[0]=cache": "/plugins/0/writablePaths/0",
		"config.pluginDir=/plugins":                          "left out: hostPaths.pluginDir of the chart",
		"dryrun=true":                                        "dryrun",
		"dryRun=maybe":                                       "/dryRun",
		"image.pullPolicy=Sometimes":                         "/image/pullPolicy",
		"image.digest=latest":                                "/image/digest",
		"image.repository=":                                  "/image/repository",
		"config.rootDir=/":                                   "/config/rootDir",
		"config.mode=cri":                                    "/config/mode",
		"config.dryRun=false":                                "left out: dryRun of the chart",
		"config.evictionhard.a=1":                            "evictionhard",
		"config.evictionHard.memory=1":                       "'memory'",
		"config.logLevel=loud":                               "/config/logLevel",
		"config.metricsBindAddress=everywhere":               "/config/metricsBindAddress",
		"config.evictionHard=5%":                             "/config/evictionHard",
		"config.evictionHard.memory\\.available=abc":         "/config/evictionHard/memory.available",
		"config.evictionSoft.memory\\.available=1Gi":         "config.evictionSoft: memory.available has no grace period",
		"config.evictionSoft.acme\\.example/x=1Gi":           "config.evictionSoft: acme.example/x has no grace period",
		"hostPaths.runDir=run":                               "/hostPaths/runDir",
		"hostPaths.runtimeSocket=":                           "/hostPaths/runtimeSocket",
		"plugins[0].name=oldest":                             "/plugins/0",
		"plugins[0].name=memory":                             "/plugins/0",
		"updateStrategy.type=Recreate":                       "/updateStrategy/type",
		"capabilities.add[0]=sys_admin":                      "/capabilities/add/0",
		"tolerations=all":                                    "/tolerations",
		"podMonitor.interval=often":                          "/podMonitor/interval",
		"serviceMonitor.interval=often":                      "/serviceMonitor/interval",
		"podMonitor.enabled=true":                            "podMonitor.enabled with config.metricsBindAddress",
		"serviceMonitor.enabled=true":                        "serviceMonitor.enabled with config.metricsBindAddress",
		both:                                                 "want one of them",
		"serviceAccount.annotations.on=true":                 "/serviceAccount/annotations",
		"resources.requests.memory=a lot":                    "/resources/requests/memory",
		"apiServer.port=https":                               "/apiServer/port",
		"rbac.create=yes please":                             "/rbac/create",
		"admissionPolicies.enabled=true":                     "/admissionPolicies",
		"extraEnv[0].value=without a name":                   "/extraEnv/0",
		"imagePullSecrets[0]=not an object":                  "/imagePullSecrets/0",
		"nodeSelector=linux":                                 "/nodeSelector",
		"commonLabels.number=1":                              "/commonLabels",
		"hostPaths.stateDirectory=/var/lib/here":             "/hostPaths",
		"enabled=false":                                      "/enabled",
		"resources.limits.mem=1Gi":                           "'mem'",
		"resources.limits.ephemeral-storage=a lot":           "/resources/limits/ephemeral-storage",
		"securityContext.capabilities.add[0]=SYS_ADMIN":      "left out: capabilities.add of the chart",
		"extraVolumeMounts[0].name=no-path":                  "/extraVolumeMounts/0",
		"initContainers[0].name=no-image":                    "/initContainers/0",
		"revisionHistoryLimit=-1":                            "/revisionHistoryLimit",
		"resourceQuota.create=true,priorityClassName=":       "want the class that the quota is for",
	} {
		out, err := helm(t, "template", "evictd", chart, "--set", value)
		if err == nil || !strings.Contains(out, names) {
			t.Errorf("%s: error %v, %q, want %q in it", value, err, out, names)
		}
	}
}

// A key of config that is no field, or a signal that no plugin has, was reported by the pods
// alone, which did not start.
func TestTheSchemaKnowsFieldsAndSignals(t *testing.T) {
	var schema struct {
		Definitions struct {
			Amounts struct{ PatternProperties map[string]any }
		}
		Properties struct {
			Config struct{ Properties map[string]any }
		}
	}
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "evictd.yaml")
	if err := os.WriteFile(file, []byte("no-field: 1\nevictionHard: {no-signal: '1'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said, _ := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("EVICTD_BIN"), "evictctl"), "check", "--config", file).CombinedOutput()
	lists := regexp.MustCompile("want one of (.*)").FindAllStringSubmatch(string(said), -1)
	if len(lists) != 2 {
		t.Fatalf("evictctl check: %s, want what fields and signals there are", said)
	}
	if fields := strings.Join(slices.Sorted(maps.Keys(schema.Properties.Config.Properties)), ", "); fields != lists[0][1] {
		t.Errorf("properties.config.properties are\n%s, want\n%s", fields, lists[0][1])
	}
	signals := "^(" + strings.NewReplacer(", ", "|", ".", "[.]").Replace(lists[1][1]) + ")$|/"
	if schema.Definitions.Amounts.PatternProperties[signals] == nil {
		t.Errorf("definitions.amounts.patternProperties are %v, want %s", schema.Definitions.Amounts.PatternProperties, signals)
	}
}

// evictd could not come back to a node that it has tainted itself, and its taint stayed for ever: after an upgrade, with
// tolerations of the operator's own, and after an uninstallation.
func TestNoTaintIsLeftForEver(t *testing.T) {
	for values, writes := range map[string]bool{"dryRun=false": true, "tolerations=null": true, "config.nodeConditions=none": false, "rbac.nodeConditions=false": false} {
		out, err := helm(t, "template", "evictd", chart, "--set", values)
		if err != nil {
			t.Fatalf("%s: %v: %s", values, err, out)
		}
		for _, condition := range []string{"memory", "disk", "pid"} {
			if want := "- key: evictd.io/" + condition + "-pressure\n          operator: Exists"; !strings.Contains(out, want) {
				t.Errorf("%s: want the toleration %q", values, want)
			}
		}
		for _, part := range []string{"name: evictd-nodes", "name: evictd-node-conditions", "helm.sh/hook: pre-delete", "command: [/usr/bin/evictctl, uninstall-cluster, default/evictd]"} {
			if strings.Contains(out, part) != writes {
				t.Errorf("%s: %q is there: %t, want %t", values, part, !writes, writes)
			}
		}
	}
}

// By default no token of evictd can delete a pod, whatever its role and its policies.
func TestADeletionOfPodsIsAValue(t *testing.T) {
	for _, value := range []string{"false", "true"} {
		out, err := helm(t, "template", "evictd", chart, "--set", "dryRun=false,rbac.deletePods="+value)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, part := range []string{"verbs: [list, watch, delete]", "variables.isDelete", "evictd deletes a pod with a grace period"} {
			if strings.Contains(out, part) != (value == "true") {
				t.Errorf("%s: %q is there: %t", value, part, value != "true")
			}
		}
	}
}

// Even a dry run could write to pods and kill processes of any user.
func TestADryRunHasNoRightToEvict(t *testing.T) {
	const user = ",plugins[0].name=oldest,plugins[0].image=example.org/oldest:1,plugins[0].path=/oldest,plugins[0].user=evictd-plugin"
	for values, want := range map[string]struct{ evicts, kills bool }{
		"dryRun=true": {}, "dryRun=true,rbac.deletePods=true": {}, "observe=true": {},
		"observe=false": {true, true}, "dryRun=false": {true, true}, "dryRun=false,observe=false": {true, true},
		"dryRun=true" + user: {false, true}, // it starts that plugin as another user, and ends it
	} {
		out, err := helm(t, "template", "evictd", chart, "--no-hooks", "--set", values)
		if err != nil {
			t.Fatalf("%s: %v: %s", values, err, out)
		}
		for part, there := range map[string]bool{
			"resources: [pods/status]\n  verbs: [patch]": want.evicts, "evictd observes, and writes nothing of a pod": !want.evicts, "observe: true\n": !want.evicts,
			"- KILL\n": want.kills, "- SETUID\n": want.kills,
		} {
			if strings.Contains(out, part) != there {
				t.Errorf("%s: %q is there: %t", values, part, !there)
			}
		}
		if strings.Contains(out, "[list, watch, delete]") && !want.evicts {
			t.Errorf("%s: pods may be deleted", values)
		}
	}
	if out, err := helm(t, "template", "evictd", chart, "--set", "dryRun=false,observe=true"); err == nil || !strings.Contains(out, "observe: true has no right to evict") {
		t.Errorf("observe with dryRun: false: %v, %s", err, out)
	}
}

// Pods were replaced to switch a plugin off. All else goes from node to node, so that a wrong value stops at the first
// ones. Where pods are replaced the label of the ConfigMap changes with
// them: without, all that run would have taken what is for the next ones, such as a plugin that comes with its image.
func TestWhatReplacesThePods(t *testing.T) {
	const plugin = "plugins[0].name=oldest,plugins[0].image=example.org/oldest:1,plugins[0].path=/oldest"
	label := regexp.MustCompile(`evictd[.]io/pods: .*`)
	render := func(template, values string) string {
		out, err := helm(t, "template", "evictd", chart, "--show-only", "templates/"+template, "--set", values)
		if err != nil {
			t.Fatalf("%s: %v: %s", values, err, out)
		}
		return out
	}
	for values, replaces := range map[string]bool{
		plugin + ",config.plugins.disk.disabled=true":          false,
		plugin + ",config.plugins.pid.disabled=true":           false,
		plugin + ",plugins[0].disabled=true":                   false,
		plugin + ",dryRun=false":                               true,
		plugin + ",config.evictionHard.memory\\.available=10%": true,
		plugin + ",plugins[0].config.a=b":                      true,
		plugin + ",plugins[0].writablePaths[0]=/var/cache":     true,
		plugin + ",plugins[0].capabilities[0]=KILL":            true,
		plugin + ",config.nodeConditions=none":                 true,
		plugin + ",image.tag=v9":                               true,
		plugin + ",plugins[0].image=example.org/oldest:2":      true,
		plugin + ",config.metricsBindAddress=127.0.0.1:1":      true,
		"dryRun=true": true,
	} {
		if got := render("daemonset.yaml", plugin) != render("daemonset.yaml", values); got != replaces {
			t.Errorf("%s: the pods are replaced: %t, want %t", values, got, replaces)
		}
		if got := label.FindString(render("configmap.yaml", plugin)) != label.FindString(render("configmap.yaml", values)); got != replaces {
			t.Errorf("%s: the label changes: %t, want %t", values, got, replaces)
		}
		if render("configmap.yaml", plugin) == render("configmap.yaml", values) {
			t.Errorf("%s: the ConfigMap does not change", values)
		}
	}
	if out := render("configmap.yaml", "config.plugins.disk.disabled=true"); !strings.Contains(out, "containerLogsDir: /var/log/containers") {
		t.Errorf("%s: a plugin that is switched off loses what the chart sets", out)
	}
}

// The notes had the chart's version with any image, and a placeholder for the chart.
func TestTheNotesSayWhatRuns(t *testing.T) {
	for value, want := range map[string]string{
		"image.tag=v9": "ghcr.io/evictd/evictd:v9 runs on each node",
		"dryRun=true":  "helm upgrade evictd CHART -n",
		"dryRun=false": "\n  kubectl evictd check --node NODE --all\n",
		// An installation without pods looked like one with them.
		"fullnameOverride=e":    "\n  kubectl -n evictd events --for daemonset/e\n",
		"fullnameOverride=g":    "\n  EVICTD_NAME=g kubectl evictd check --node NODE --all\n",
		"nodeSelector.pool=one": "\n  kubectl label --overwrite namespace evictd pod-security.kubernetes.io/enforce=privileged\n",
	} {
		out, err := helm(t, "install", "evictd", chart, "--namespace", "evictd", "--dry-run=client", "--set", value)
		if _, notes, _ := strings.Cut(out, "\nNOTES:\n"); err != nil || !strings.Contains(notes, want) {
			t.Errorf("%s: %v, %s, want %q", value, err, notes, want)
		}
	}
}

// Each value of values.yaml has a comment above it or is part of a value that has one, and a
// description of its type in the schema.
func TestEachValueIsDescribed(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct{ Properties map[string]any }
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`^( *)([A-Za-z]+):(.*)$`)
	values, described := 0, map[int]bool{}
	lines := strings.Split(string(raw), "\n")
	for i, line := range lines {
		m := key.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		depth, comment := len(m[1]), strings.HasPrefix(strings.TrimSpace(lines[max(0, i-1)]), "#")
		for d := range described {
			if d >= depth {
				delete(described, d)
			}
		}
		if depth == 0 {
			values++
			if schema.Properties[m[2]] == nil {
				t.Errorf("values.yaml:%d: %s is not in values.schema.json", i+1, m[2])
			}
			delete(schema.Properties, m[2])
		}
		above := len(described) > 0
		if comment {
			described[depth] = true
		}
		if leaf := strings.TrimSpace(m[3]) != ""; leaf && !comment && !above {
			t.Errorf("values.yaml:%d: %s has no comment", i+1, m[2])
		}
	}
	if delete(schema.Properties, "global"); len(schema.Properties) > 0 {
		t.Errorf("values.schema.json has %q, which are not in values.yaml", slices.Sorted(maps.Keys(schema.Properties)))
	}
	if values < 20 {
		t.Errorf("%d values, want all of them", values)
	}
}

// What the chart makes of its values is a configuration that evictd takes, with plugins and with
// thresholds of the operator's.
func TestEvictdTakesTheChartsConfiguration(t *testing.T) {
	evictctl := filepath.Join(os.Getenv("EVICTD_BIN"), "evictctl")
	for name, values := range map[string][]string{
		"default": nil,
		"plugin":  {"--set", "plugins[0].name=oldest,plugins[0].image=example.org/oldest:1,plugins[0].path=/oldest,plugins[0].config.a=b"},
		"soft":    {"--set", "dryRun=false,config.evictionSoft.memory\\.available=10%,config.evictionSoftGracePeriod.memory\\.available=30s"},
		"vendor":  {"--set", "config.evictionHard.acme\\.example/spare=10%"},
		"wrong":   {"--set", "config.monitoringInterval=0s"},
	} {
		out, err := helm(t, append([]string{"template", "evictd", chart, "--show-only", "templates/configmap.yaml"}, values...)...)
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		_, config, _ := strings.Cut(out, "evictd.yaml: |\n")
		file := filepath.Join(t.TempDir(), "evictd.yaml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(config, "\n    ", "\n")[4:]), 0o600); err != nil {
			t.Fatal(err)
		}
		said, _ := exec.CommandContext(t.Context(), evictctl, "check", "--config", file, "--start-plugins=false").CombinedOutput()
		if wrong := strings.Contains(string(said), "evictd.yaml: "); wrong != (name == "wrong") {
			t.Errorf("%s: %s", name, said)
		}
	}
}
