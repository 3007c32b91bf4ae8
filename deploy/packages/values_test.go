package packages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// There was no value for what the rules of a cluster ask for, such as SELinux's type or limits of ephemeral-storage.
func TestValuesForTheRulesOfAClusterReachTheChartsObjects(t *testing.T) {
	const selinux, resources = "securityContext.seLinuxOptions.type=spc_t", "resources.requests.ephemeral-storage=1Mi,resources.limits.ephemeral-storage=2Mi,resources.limits.acme\\.example/x=1"
	const monitor = "config.metricsBindAddress=0.0.0.0:10269,serviceMonitor.enabled=true,serviceMonitor.authorization.credentials.name=s,serviceMonitor.interval=5s"
	const endpoint = "\n      scheme: https\n      tlsConfig:\n        insecureSkipVerify: true\n      authorization:\n        credentials:\n          name: s\n" +
		"      interval: 5s\n      relabelings:\n        - sourceLabels: [__meta_kubernetes_pod_node_name]\n          targetLabel: instance\n"
	const plugin = ",plugins[0].name=acme,plugins[0].image=i,plugins[0].path=/acme"
	for name, c := range map[string]struct {
		template, values, part string
		times                  int
	}{
		"a plugin's container has no device":    {"daemonset", resources + plugin, "            requests:\n              cpu: 50m\n              ephemeral-storage: 1Mi\n              memory: 32Mi\n            limits:\n              cpu: 50m\n              ephemeral-storage: 2Mi\n              memory: 32Mi\n", 1},
		"and SELinux's type":                    {"daemonset", selinux + plugin, "seLinuxOptions:\n              type: spc_t\n", 4},
		"SELinux's type, in both containers":    {"daemonset", selinux, "seLinuxOptions:\n              type: spc_t\n", 2},
		"capabilities are the chart's":          {"daemonset", selinux, "- SYS_PTRACE\n              drop:\n              - ALL\n            readOnlyRootFilesystem: true\n", 1},
		"a default of a container changes":      {"daemonset", "securityContext.readOnlyRootFilesystem=false", "readOnlyRootFilesystem: false\n", 2},
		"privileged, in evictd's container":     {"daemonset", "securityContext.privileged=true,securityContext.allowPrivilegeEscalation=true", "privileged: true\n", 1},
		"and not in the init container":         {"daemonset", "securityContext.privileged=true,securityContext.allowPrivilegeEscalation=true", "allowPrivilegeEscalation: false\n", 1},
		"the pod's SELinux type":                {"daemonset", "podSecurityContext.seLinuxOptions.type=spc_t", "        runAsUser: 0\n        seLinuxOptions:\n          type: spc_t\n        seccompProfile:\n          type: RuntimeDefault\n", 1},
		"a default of the pod changes":          {"daemonset", "podSecurityContext.seccompProfile.type=Unconfined", "seccompProfile:\n          type: Unconfined\n", 1},
		"any resource, in both containers":      {"daemonset", resources, "acme.example/x: 1\n              cpu: 500m\n              ephemeral-storage: 2Mi\n", 2},
		"the Job has all but devices":           {"uninstall", resources, "limits:\n              cpu: 500m\n              ephemeral-storage: 2Mi\n              memory: 128Mi\n            requests:\n              cpu: 10m\n              ephemeral-storage: 1Mi\n", 1},
		"labels of the pods":                    {"daemonset", "podLabels.team=a", "        team: a\n", 1},
		"labels of the Job's pods":              {"uninstall", "podLabels.team=a", "        team: a\n", 1},
		"common labels of the Job's pods":       {"uninstall", "commonLabels.team=a", "        team: a\n", 1},
		"podLabels over commonLabels":           {"daemonset", "podLabels.team=a,commonLabels.team=b", "        team: a\n", 1},
		"no label twice":                        {"daemonset", "podLabels.team=a,commonLabels.team=b", "        team: ", 1},
		"a volume":                              {"daemonset", "extraVolumes[0].name=certs,extraVolumes[0].secret.secretName=s", "        - name: certs\n          secret:\n            secretName: s\n", 1},
		"and where it is":                       {"daemonset", "extraVolumeMounts[0].name=certs,extraVolumeMounts[0].mountPath=/certs", "            - mountPath: /certs\n              name: certs\n", 1},
		"an init container, first":              {"daemonset", "initContainers[0].name=wait,initContainers[0].image=i", "      initContainers:\n        - image: i\n          name: wait\n", 1},
		"revisions":                             {"daemonset", "revisionHistoryLimit=0", "  revisionHistoryLimit: 0\n", 1},
		"no pod on Fargate":                     {"daemonset", "dryRun=true", "key: eks.amazonaws.com/compute-type\n                operator: NotIn\n                values:\n                - fargate\n", 1},
		"or on a virtual node, also of the Job": {"uninstall", "dryRun=true", "key: type\n                operator: NotIn\n                values:\n                - virtual-kubelet\n", 1},
		"unless affinity says so":               {"daemonset", "affinity.nodeAffinity=null", "virtual-kubelet", 0},
		"a quota for the class":                 {"resourcequota", "resourceQuota.create=true,priorityClassName=mine", "scopeName: PriorityClass\n      values: [mine]\n", 1},
		"a ServiceMonitor is a PodMonitor":      {"monitoring", monitor, endpoint, 1},
		"with a Service":                        {"monitoring", monitor, "  clusterIP: None\n", 1},
		"that has the monitor's port":           {"monitoring", monitor, "    - name: metrics\n      port: 10269\n", 1},
		"and the monitor's labels":              {"monitoring", monitor, "matchLabels:\n      app.kubernetes.io/name: evictd\n      app.kubernetes.io/instance: evictd\n", 1},
		"a PodMonitor has no Service":           {"monitoring", strings.ReplaceAll(monitor, "service", "pod"), "kind: Service\n", 0},
		"a PodMonitor has the same endpoint":    {"monitoring", strings.ReplaceAll(monitor, "service", "pod"), endpoint, 1},
	} {
		out, err := helm(t, "template", "evictd", chart, "--show-only", "templates/"+c.template+".yaml", "--set", c.values)
		if err != nil || strings.Count(out, c.part) != c.times {
			t.Errorf("%s: %s: error %v, want %d times %q in %s", name, c.values, err, c.times, c.part, out)
		}
	}
}

// A parent chart could not switch evictd on and off: the schema refused its condition.
func TestAParentChartBringsEvictd(t *testing.T) {
	for name, c := range map[string]struct {
		dependency, values, want string
	}{
		"on":                {"condition: evictd.enabled", "{evictd: {enabled: true, dryRun: false}}", "name: platform-evictd\n"},
		"on by default":     {"condition: evictd.enabled", "{}", "name: platform-evictd\n"},
		"off":               {"condition: evictd.enabled", "{evictd: {enabled: false}}", ""},
		"by a tag":          {"tags: [nodes]", "{tags: {nodes: false}}", ""},
		"with an alias":     {"alias: eviction, condition: eviction.enabled", "{eviction: {enabled: true, podLabels: {a: b}}}", "name: platform-eviction\n"},
		"with other values": {"condition: evictd.enabled", "{global: {imageRegistry: example.org, evictd: {a: 1}}, other: {replicas: 1}, enabled: false}", "name: platform-evictd\n"},
	} {
		parent := t.TempDir()
		for file, text := range map[string]string{
			"Chart.yaml":  "{apiVersion: v2, name: platform, version: 1.0.0, dependencies: [{name: evictd, version: '*', " + c.dependency + "}]}",
			"values.yaml": c.values,
		} {
			if err := os.WriteFile(filepath.Join(parent, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.CopyFS(filepath.Join(parent, "charts", "evictd"), os.DirFS(chart)); err != nil {
			t.Fatal(err)
		}
		out, err := helm(t, "template", "platform", parent)
		if err != nil || !strings.Contains(out, c.want) || strings.Contains(out, "kind: DaemonSet") != (c.want != "") {
			t.Errorf("%s: error %v, want %q in %s", name, err, c.want, out)
		}
	}
}
