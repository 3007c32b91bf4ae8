package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// The chart as it is installed first says which pod it would evict and which one the kernel has killed, and its account and its
// process cannot evict: each write to pods is refused, also by its policies to an account whose role allows it.
func TestAnObserverCannotEvict(t *testing.T) {
	c := start(t, cluster.Options{})
	h := newChart(t, c)
	h.values["config"] = map[string]any{"cgroupRoot": c.CgroupRoot, "evictionHard": map[string]any{"nodefs.available": "99.9%"}, "healthzBindAddress": h.probed, "nodeConditions": "none"}
	began := time.Now()
	h.helm(t, "install")
	calm := deploy(t, c, "calm", sleeper())
	must(t, c.Apply(soon(t), barePod("greedy", fmt.Sprintf("{hostNetwork: true, containers: [{name: main, image: %s, imagePullPolicy: Never, "+
		"resources: {limits: {memory: 32Mi}}, command: [sh, -c, \"tail /dev/zero; sleep 100000\"]}]}", stack.PodImage))))
	const killed = "default/greedy"
	for ctx, list := soon(t), ""; !strings.Contains(list, killed); {
		list = kubectlEvictd(t, c, "report", "--node", c.Node)
		must(t, stack.Pause(ctx, 500*time.Millisecond))
	}
	t.Logf("  %.1f s after the first command: %s", time.Since(began).Seconds(), kubectlEvictd(t, c, "explain", killed, "--node", c.Node))
	for ctx, list := soon(t), ""; !strings.Contains(list, "eviction (dry run)"); {
		list = kubectlEvictd(t, c, "evictions", "--node", c.Node)
		must(t, stack.Pause(ctx, 500*time.Millisecond))
	}
	if v := viewOf(t, h.runDir); v.plugin("memory") != "running" || v.plugin("disk") != "running" || v.plugin("pid") != "running" {
		t.Errorf("plugins %+v, want all running without the capabilities", v.Plugins)
	}
	out := kubectlEvictd(t, c, "check", "--node", c.Node)
	if strings.Contains(out, "not allowed") || !strings.Contains(out, "BESIDE THE KUBELET") {
		t.Errorf("check: %s; want the kubelet that runs, and no right asked for that an observer has not", out)
	}

	node, err := c.AwaitNode(soon(t), func(*v1.Node) bool { return true })
	must(t, err)
	token := tokenOf(t, c, "observer", cluster.ToNode(node))
	toPods := [][]string{
		{"delete", "pod", calm.Name, "--wait=false"},
		{"patch", "pod", calm.Name, "--subresource=status", "--type=strategic", "--patch", `{"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. "}}`},
		{"patch", "pod", calm.Name, "--type=merge", "--patch", `{"metadata": {"annotations": {"evictd.io/evicted": "now"}}}`},
		{"drain", c.Node, "--force", "--pod-selector=app=calm"},
	}
	refused := func(why string, writes ...[]string) {
		t.Helper()
		for _, write := range writes {
			out, err := c.Kubectl(soon(t), "", append(write, "--kubeconfig", token)...)
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("kubectl %v: %s, %v; want it refused: %s", write, out, err, why)
			}
		}
	}
	refused("orbidden", append(toPods, []string{"taint", "nodes", c.Node, "evictd.io/memory-pressure=:NoSchedule"})...)
	must(t, c.Apply(soon(t), `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: broad}
rules: [{apiGroups: [""], resources: ["*"], verbs: ["*"]}, {apiGroups: [apps], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: broad}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: broad}
subjects: [{kind: ServiceAccount, name: evictd, namespace: evictd}]
`))
	_, err = c.Kubectl(soon(t), "", "auth", "can-i", "delete", "pods", "--kubeconfig", token)
	must(t, err)
	refused("ValidatingAdmissionPolicy", toPods[:3]...)
	unharmed(t, c, calm)

	pid, err := c.Kubectl(soon(t), "", "-n", "evictd", "get", "pods", "-o", "jsonpath={.items[0].status.containerStatuses[0].containerID}")
	must(t, err)
	const kill, setuid = 1 << 5, 1 << 7 // linux/capability.h
	if may := capabilitiesOf(t, strings.TrimPrefix(pid, "containerd://")); may&(kill|setuid) != 0 {
		t.Errorf("the process may %x, want neither KILL nor SETUID", may)
	}
	h.helm(t, "uninstall")
}

// capabilitiesOf returns what the first process of a container may do.
func capabilitiesOf(t *testing.T, container string) (may uint64) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cgroup")
	must(t, err)
	for _, file := range all {
		in, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(in), container) {
			continue // it has ended, or is of another one
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(file), "status"))
		must(t, err)
		bounds := regexp.MustCompile(`CapBnd:\t([0-9a-f]+)`).FindSubmatch(status)
		may, err = strconv.ParseUint(string(bounds[1]), 16, 64)
		must(t, err)
		return may
	}
	t.Fatalf("container %s has no process", container)
	return 0
}
