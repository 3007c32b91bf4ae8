package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/chartvalues"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// chart is an installation of deploy/chart in a cluster.
type chart struct {
	c      *cluster.Cluster
	values map[string]any
	// of is the chart, by default that of this checkout, with further arguments.
	of []string
	// probed is the address of /healthz, runDir the run directory as the host sees it.
	probed, runDir string
}

// newChart imports the image that make image has made, and has values for the cluster.
func newChart(t *testing.T, c *cluster.Cluster) *chart {
	t.Helper()
	archive, name := os.Getenv("EVICTD_IMAGE"), os.Getenv("EVICTD_IMAGE_NAME")
	must(t, c.ImportArchive(soon(t), archive, name))
	repository, tag, _ := strings.Cut(name, ":")
	values, err := chartvalues.For(t.Context(), c, repository, tag)
	must(t, err)
	h := &chart{
		c: c, values: values, probed: values["config"].(map[string]any)["healthzBindAddress"].(string),
		runDir: filepath.Join(values["hostPaths"].(map[string]any)["runDir"].(string), "daemon"),
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(h.state(t))
		}
	})
	return h
}

// state returns what the pods of evictd say, and what the API server has of them and of the pods of a test.
func (h *chart) state(t *testing.T) string {
	var out strings.Builder
	for _, args := range [][]string{
		{"-n", "evictd", "describe", "pods"}, {"-n", "evictd", "logs", "ds/evictd", "--all-containers", "--tail", "100"},
		{"-n", "default", "get", "pods,events", "-o", "wide"},
	} {
		text, _ := h.c.Kubectl(context.WithoutCancel(t.Context()), "", args...) // what it cannot say is empty
		fmt.Fprintf(&out, "%s\n", text)
	}
	return out.String()
}

// helm runs `helm COMMAND evictd`, with the chart and values where the command takes them.
func (h *chart) helm(t *testing.T, command string, args ...string) string {
	t.Helper()
	if command != "uninstall" {
		args = append(args, h.arguments(t)...)
	}
	out, err := h.try(t, 90*time.Second, command, "evictd", args...)
	if err != nil {
		t.Fatalf("helm %s: %v: %s", command, err, out)
	}
	return out
}

// try runs `helm COMMAND RELEASE` until it has succeeded or timeout is over.
func (h *chart) try(t *testing.T, timeout time.Duration, command, release string, args ...string) (string, error) {
	t.Helper()
	args = append([]string{command, release, "--namespace", "evictd", "--kubeconfig", h.c.AdminKubeconfig, "--wait", "--timeout", timeout.String()}, args...)
	cmd := exec.CommandContext(t.Context(), os.Getenv("EVICTD_HELM"), args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+h.c.Dir, "HELM_CONFIG_HOME="+h.c.Dir, "HELM_DATA_HOME="+h.c.Dir)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// tryValues is helm install that may fail.
func (h *chart) tryValues(t *testing.T, timeout time.Duration) (string, error) {
	t.Helper()
	return h.try(t, timeout, "install", "evictd", h.arguments(t)...)
}

// arguments are the chart and its values.
func (h *chart) arguments(t *testing.T) []string {
	t.Helper()
	text, err := yaml.Marshal(h.values)
	must(t, err)
	file := filepath.Join(h.c.Dir, "values.yaml")
	must(t, os.WriteFile(file, text, 0o600))
	of := h.of
	if of == nil {
		of = []string{"../../../deploy/chart"}
	}
	return append(slices.Clone(of), "--create-namespace", "--values", file)
}

// A view is part of the status of an evictd.
type view struct {
	NotReady string
	Layout   string
	DryRun   bool
	Plugins  []pluginStatus
	Signals  []struct {
		Signal, State       string
		Available, Capacity int64
	}
}

// viewOf waits until evictd is ready.
func viewOf(t *testing.T, runDir string) view {
	t.Helper()
	v := view{NotReady: "no answer"}
	for ctx := soon(t); v.NotReady != ""; {
		v = ask(ctx, t, runDir)
		must(t, stack.Pause(ctx, 100*time.Millisecond))
	}
	return v
}

func ask(ctx context.Context, t *testing.T, runDir string) (v view) {
	t.Helper()
	_, page, err := evictd.Get(ctx, runDir, "/status")
	must(t, err)
	must(t, json.Unmarshal(page, &v))
	return v
}

// memoryAlone takes the chart's thresholds of disks away: how full this machine's disk is must not decide.
func memoryAlone(hard map[string]any) map[string]any {
	for _, s := range []string{"nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree"} {
		hard[s] = nil
	}
	return hard
}

// A cluster has evictd by one command, a hog is evicted within a minute of it, and nothing
// is left of it when it is taken away.
func TestTheChartOnACluster(t *testing.T) {
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	spec, station := newHog(t, c, "hog", 1536, "--stubborn", "--term-delay-ms", "60000")
	must(t, c.Apply(t.Context(), deployment("hog", spec)))
	calm := deploy(t, c, "calm", sleeper())
	awaitAvailable(soon(t), t, c, "hog")
	h := newChart(t, c)
	config := map[string]any{
		"cgroupRoot": c.CgroupRoot, "evictionHard": memoryAlone(leaveToEvictd(t, c, kubelet)), "evictionPressureTransitionPeriod": "5m",
		"healthzBindAddress": h.probed, "logLevel": "debug",
	}
	h.values["config"] = config
	_, err := c.Kubectl(soon(t), "", "create", "namespace", "evictd")
	must(t, err)
	_, err = c.Kubectl(soon(t), "", "apply", "--server-side", "--dry-run=server", "--warnings-as-errors", "-f", "../../../deploy/manifests/evictd.yaml")
	must(t, err)
	// Of a kubelet that evicts at a value of its own, too.
	settings := filepath.Join(c.Dir, "settings.yaml")
	must(t, os.WriteFile(settings, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
		"evictionSoft: {memory.available: 3Gi}\nevictionSoftGracePeriod: {memory.available: 30s}\n"), 0o600))
	h.values["besideKubelet"] = map[string]any{"config": settings}
	before := h.objects(t)

	began := time.Now()
	notes := h.helm(t, "install")
	t.Logf("  ready %.1f s after helm install", time.Since(began).Seconds())
	if !strings.Contains(notes, "It is a dry run") {
		t.Errorf("notes %q, want them to tell of the dry run", notes)
	}
	h.values["dryRun"] = false
	h.helm(t, "upgrade")
	must(t, station.Release(soon(t)))
	victim := awaitPod(soon(t), t, c, "hog", endedWithReason)
	evicted(t, victim)
	t.Logf("  evicted %.1f s after the first command: %s", time.Since(began).Seconds(), victim.Status.Message)
	if victim.Annotations["evictd.io/evicted"] == "" {
		t.Error("the eviction is not evictd's")
	}
	unharmed(t, c, calm)
	_, err = c.AwaitNode(soon(t), func(n *v1.Node) bool {
		return cluster.NodeCondition(n, "evictd.io/MemoryPressure") == v1.ConditionTrue && len(n.Spec.Taints) == 1 && n.Spec.Taints[0].Key == "evictd.io/memory-pressure"
	})
	must(t, err)
	events, err := c.Kubectl(soon(t), "", "get", "events", "--field-selector", "reason=KubeletSettings", "-o", "jsonpath={.items[*].message}")
	must(t, err)
	if !strings.Contains(events, "memory.available: ") {
		t.Errorf("events about the kubelet's settings: %q", events)
	}
	// From the pod it kills what the grace has left, and takes back its memory.
	logs, err := c.Kubectl(soon(t), "", "-n", "evictd", "logs", "ds/evictd")
	must(t, err)
	if !strings.Contains(logs, `"msg":"processes killed"`) || strings.Contains(logs, "is not taken back at once") {
		t.Errorf("log %s, want the hog's processes killed and their memory taken back", logs)
	}

	h.helm(t, "uninstall") // while the node is tainted
	_, err = c.Kubectl(soon(t), "", "-n", "evictd", "wait", "--for=delete", "pods", "--all", "--timeout=60s")
	must(t, err)
	if after := h.objects(t); after != before {
		t.Errorf("objects before: %s\nafter: %s", before, after)
	}
}

// On a node whose /var/lib/kubelet is a link, and whose runtime's socket is below one, the chart's evictd evicted no pod: the
// kernel followed absolute links from the container's own root.
func TestTheChartOnANodeWithLinks(t *testing.T) {
	c := start(t, withDisks(nil))
	h := newChart(t, c)
	paths := h.values["hostPaths"].(map[string]any)
	links := filepath.Join(c.Dir, "links")
	must(t, os.Mkdir(links, 0o755))
	for key, to := range map[string]string{"kubeletRootDir": paths["kubeletRootDir"].(string), "runtimeSocket": filepath.Dir(paths["runtimeSocket"].(string))} {
		paths[key] = filepath.Join(links, key)
		must(t, os.Symlink(to, paths[key].(string)))
	}
	paths["runtimeSocket"] = filepath.Join(paths["runtimeSocket"].(string), filepath.Base(c.Socket))
	room := statfs(t, c).Bavail * uint64(statfs(t, c).Bsize)
	h.values["dryRun"] = false
	h.values["config"] = map[string]any{
		"cgroupRoot": c.CgroupRoot, "evictionHard": map[string]any{"nodefs.available": strconv.FormatUint(room-200<<20, 10)},
		"healthzBindAddress": h.probed, "logLevel": "debug",
	}
	h.helm(t, "install")
	calm := deploy(t, c, "calm", sleeper())
	must(t, c.Apply(soon(t), barePod("hoarder", fillingPod())))
	victim := awaitPod(soon(t), t, c, "hoarder", endedWithReason)
	if victim.Status.Reason != "Evicted" || victim.Annotations["evictd.io/evicted"] == "" {
		t.Errorf("the hoarder: %s, %s, annotations %v; want it evicted by evictd", victim.Status.Reason, victim.Status.Message, victim.Annotations)
	}
	unharmed(t, c, calm)
}

// What evictd reads of the node from its pod is what it reads from the host.
func TestThePodSeesWhatTheHostSees(t *testing.T) {
	c := start(t, cluster.Options{})
	h := newChart(t, c)
	every := map[string]any{
		"memory.available": "1Mi", "pid.available": "1",
		"nodefs.available": "1Mi", "nodefs.inodesFree": "1", "imagefs.available": "1Mi", "imagefs.inodesFree": "1",
	}
	const often = "500ms"
	h.values["config"] = map[string]any{"cgroupRoot": c.CgroupRoot, "evictionHard": every, "healthzBindAddress": h.probed, "monitoringInterval": often}
	h.helm(t, "install")
	p := beside(t, c, account(t, c), map[string]any{"evictionHard": every, "dryRun": true, "monitoringInterval": often})
	viewOf(t, p.RunDir)
	// What the machine does meanwhile lies between the two of the pod, but for the moments at which each looks.
	before := viewOf(t, h.runDir)
	must(t, stack.Pause(soon(t), time.Second))
	onHost := viewOf(t, p.RunDir)
	must(t, stack.Pause(soon(t), time.Second))
	after := viewOf(t, h.runDir)
	if before.Layout != onHost.Layout {
		t.Errorf("layout %q, on the host %q", before.Layout, onHost.Layout)
	}
	if len(before.Signals) != len(onHost.Signals) || len(after.Signals) != len(onHost.Signals) {
		t.Fatalf("%d signals, on the host %d", len(before.Signals), len(onHost.Signals))
	}
	for i, s := range before.Signals {
		host, later, off := onHost.Signals[i], after.Signals[i], int64(1<<29)
		if s.Signal == "pid.available" || strings.HasSuffix(s.Signal, "inodesFree") {
			off = 2000
		}
		t.Logf("  %-30s %-9s pod %15d %15d of %15d  host %15d of %15d", s.Signal, s.State, s.Available, later.Available, s.Capacity, host.Available, host.Capacity)
		if s.Signal != host.Signal || s.State != host.State || s.Capacity != host.Capacity ||
			host.Available < min(s.Available, later.Available)-off || host.Available > max(s.Available, later.Available)+off {
			t.Errorf("%+v and %+v, on the host %+v", s, later, host)
		}
	}
	must(t, p.Stop())
}

// A kill that is under way when the pod of evictd is replaced is finished by the next one, and
// costs no second pod.
func TestAnUpgradeInTheMiddleOfAKill(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("the memory of the whole machine decides: part of make nightly, where nothing else runs")
	}
	c := start(t, cluster.Options{})
	calm := deploy(t, c, "calm", sleeper())
	h := newChart(t, c)
	h.values["dryRun"] = false
	config := map[string]any{
		"cgroupRoot": c.CgroupRoot, "healthzBindAddress": h.probed, "evictionMaxPodGracePeriod": 30,
		"evictionHard": map[string]any{"memory.available": "100Mi"},
	}
	h.values["config"] = config
	h.helm(t, "install")
	for _, s := range viewOf(t, h.runDir).Signals {
		if s.Signal == "memory.available" {
			config["evictionSoft"] = map[string]any{s.Signal: strconv.FormatInt(s.Available-768<<20, 10)}
		}
	}
	config["evictionSoftGracePeriod"] = map[string]any{"memory.available": "1s"}
	h.helm(t, "upgrade")
	spec, station := newHog(t, c, "hog", 1536, "--term-delay-ms", "20000")
	spec = strings.Replace(spec, "terminationGracePeriodSeconds: 1", "terminationGracePeriodSeconds: 30", 1)
	deploy(t, c, "hog", spec)
	pods := begin(t, c)
	must(t, station.Release(soon(t)))
	awaitPod(soon(t), t, c, "hog", func(p *v1.Pod) bool { return p.Annotations["evictd.io/evicted"] != "" })
	h.values["podAnnotations"] = map[string]any{"example.org/round": "2"}
	h.helm(t, "upgrade")
	victim := awaitPod(soon(t), t, c, "hog", endedWithReason)
	evicted(t, victim)
	unharmed(t, c, calm)
	all, _ := pods.all("hog")
	for _, l := range all {
		if l.Pod.UID != victim.UID && condition(l.Pod, v1.DisruptionTarget) != nil {
			t.Errorf("a second pod %s went: %s", l.Pod.Name, l.Pod.Status.Message)
		}
	}
	logs, err := c.Kubectl(soon(t), "", "-n", "evictd", "logs", "ds/evictd")
	must(t, err)
	if !strings.Contains(logs, string(victim.UID)) {
		t.Errorf("the next evictd says nothing of the victim %s: %s", victim.UID, logs)
	}
	h.helm(t, "uninstall")
}

// A plugin of a vendor comes with a helm upgrade, and changes who is evicted.
func TestAVendorsPluginComesWithTheChart(t *testing.T) {
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	h := newChart(t, c)
	config := map[string]any{
		"cgroupRoot": c.CgroupRoot, "evictionHard": memoryAlone(leaveToEvictd(t, c, kubelet)), "healthzBindAddress": h.probed,
	}
	h.values["config"] = config
	image := os.Getenv("EVICTD_IMAGE_NAME")
	h.values["plugins"] = []any{map[string]any{"name": "oldest", "image": image, "path": "/usr/libexec/evictd/examples/oldest"}}
	h.helm(t, "install")
	if s := h.pluginNames(t); !strings.Contains(s, "oldest") {
		t.Errorf("plugins %s, want oldest among them", s)
	}
	must(t, c.Apply(t.Context(), deployment("elder", fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, containers: [
      {name: main, image: %s, imagePullPolicy: Never, command: [sleep, "100000"], resources: {requests: {memory: 1Mi}}}]}`, stack.PodImage))))
	elder := awaitAvailable(soon(t), t, c, "elder")
	awaitYounger(t, elder)
	spec, station := newHog(t, c, "hog", 1536)
	deploy(t, c, "hog", spec)
	h.values["dryRun"] = false
	h.helm(t, "upgrade")
	must(t, station.Release(soon(t)))
	first := awaitPod(soon(t), t, c, "elder", func(p *v1.Pod) bool { return p.UID == elder.UID && endedWithReason(p) })
	t.Logf("  the oldest pod %s went first: %s", first.Name, first.Status.Message)
	for args, want := range map[string]string{
		"evictions":                               first.Name,
		"explain default/" + first.Name:           first.Name,
		"observe --node " + c.Node + " --times 2": "memory.available",
		"rank --signal memory.available":          "",
		"check --node " + c.Node + " --all":       "containerd",
		"replay default/" + first.Name:            " goes instead of default/" + first.Name,
	} {
		if out := kubectlEvictd(t, c, strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("kubectl evictd %s: %q, want %q in it", args, out, want)
		}
	}
	if out := kubectlEvictd(t, c, "explain", "--node", c.Node, "--since", "1h", "--html"); !strings.HasPrefix(out, "<!DOCTYPE html>") || !strings.Contains(out, "default/"+first.Name) {
		t.Errorf("the page of the last hour: %.300q", out)
	}
	delete(h.values, "plugins")
	h.helm(t, "upgrade")
	if s := h.pluginNames(t); strings.Contains(s, "oldest") {
		t.Errorf("plugins %s, want oldest gone", s)
	}
	h.helm(t, "uninstall")
}

func kubectlEvictd(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(soon(t), "../../../deploy/kubectl-evictd", args...)
	cmd.Env = append(os.Environ(), "PATH="+programs().Kubernetes+":../../../bin:"+os.Getenv("PATH"), "KUBECONFIG="+c.AdminKubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("kubectl evictd %v: %v: %s", args, err, out)
	}
	return string(out)
}

// pluginNames asks evictd in its pod for its plugins.
func (h *chart) pluginNames(t *testing.T) string {
	t.Helper()
	out, err := h.c.Kubectl(soon(t), "", "-n", "evictd", "exec", "ds/evictd", "--", "/usr/bin/evictctl", "plugins", "--config", "/etc/evictd/evictd.yaml")
	must(t, err)
	return out
}

// objects are the names of all that a chart may make, outside and inside of its namespace.
func (h *chart) objects(t *testing.T) string {
	t.Helper()
	all, err := h.c.Kubectl(soon(t), "", "get", "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "name")
	must(t, err)
	in, err := h.c.Kubectl(soon(t), "", "-n", "evictd", "get", "all,configmaps,secrets,serviceaccounts,roles,rolebindings", "-o", "name", "--ignore-not-found")
	must(t, err)
	node, err := h.c.Kubectl(soon(t), "", "get", "nodes", "-o", "jsonpath={.items[*].spec.taints}{.items[*].status.conditions[*].type}")
	must(t, err)
	var lines []string
	for line := range strings.Lines(all + in) {
		if line = strings.TrimSpace(line); line != "configmap/kube-root-ca.crt" && line != "serviceaccount/default" {
			lines = append(lines, line)
		}
	}
	return strings.Join(append(lines, node), "\n")
}
