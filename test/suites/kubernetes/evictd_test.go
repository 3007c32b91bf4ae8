package kubernetes_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// beside starts evictd beside the kubelet, with who asks the API server.
func beside(t *testing.T, c *cluster.Cluster, kubeconfig string, config map[string]any, others ...string) *evictd.Process {
	t.Helper()
	full := map[string]any{"mode": "kubernetes", "kubeconfig": kubeconfig, "evictionPressureTransitionPeriod": "1s"}
	maps.Copy(full, config)
	return startEvictd(t, c, full, others...)
}

// account gives evictd's account its rights, as an operator would, and returns the
// kubeconfig of a token of it that is bound to the node.
func account(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	applyRights(t, c)
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), c.Node, metav1.GetOptions{})
	must(t, err)
	return tokenOf(t, c, "evictd-on-the-node", cluster.ToNode(node))
}

func applyRights(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	rbac, err := filepath.Abs("../../../deploy/rbac")
	must(t, err)
	_, err = c.Kubectl(soon(t), "", "apply", "-k", rbac)
	must(t, err)
}

// letDelete lets evictd delete pods whose evictions are refused, as rbac.deletePods of the chart does.
func letDelete(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	file, err := filepath.Abs("../../../deploy/rbac/delete-pods.yaml")
	must(t, err)
	_, err = c.Kubectl(soon(t), "", "apply", "-f", file)
	must(t, err)
}

func tokenOf(t *testing.T, c *cluster.Cluster, name string, bound *authenticationv1.BoundObjectReference) (kubeconfig string) {
	t.Helper()
	token, err := c.Token(soon(t), "evictd", "evictd", bound)
	must(t, err)
	kubeconfig, err = c.TokenKubeconfig(name, token)
	must(t, err)
	return kubeconfig
}

// leaveToEvictd takes its thresholds from the kubelet and returns them.
func leaveToEvictd(t *testing.T, c *cluster.Cluster, kubelet map[string]any) (hard map[string]any) {
	t.Helper()
	calm := maps.Clone(kubelet)
	calm["evictionHard"] = cluster.CalmThresholds()
	must(t, c.ConfigureKubelet(soon(t), calm))
	return map[string]any{"memory.available": kubelet["evictionHard"].(map[string]any)["memory.available"]}
}

// What the account may do is enough, and check says so; without a verb it says which.
func TestCheckSaysWhichRightIsMissing(t *testing.T) {
	c := start(t, cluster.Options{})
	deploy(t, c, "web", sleeper())
	kubeconfig := account(t, c)
	awaitCheck(t, c, kubeconfig, 0, "")
	awaitCheck(t, c, c.KubeletKubeconfig, 0, "deploy/rbac/policy.yaml is not in force") // which may do all, and more
	for _, missing := range []struct {
		rule        int
		verb, stays string
		code        int
		says        string
	}{
		{0, "list", `"watch"`, 1, "list the pods of node"},
		{0, "watch", `"list"`, 1, "watch pods is not allowed"},
		{1, "patch", `"get"`, 1, "patch pods/status is not allowed"},
		{2, "create", `"patch"`, 0, "create events is not allowed"},
		{2, "patch", `"create"`, 0, "patch events is not allowed"},
		{3, "get", `"list"`, 0, "get nodes is not allowed"},
	} {
		t.Run(fmt.Sprintf("%s of rule %d", missing.verb, missing.rule), func(t *testing.T) {
			_, err := c.Kubectl(soon(t), "", "patch", "clusterrole", "evictd", "--type=json", "--patch",
				fmt.Sprintf(`[{"op": "replace", "path": "/rules/%d/verbs", "value": [%s]}]`, missing.rule, missing.stays))
			must(t, err)
			awaitCheck(t, c, kubeconfig, missing.code, missing.says)
			applyRights(t, c)
			awaitCheck(t, c, kubeconfig, 0, "")
		})
	}
}

// awaitCheck runs evictctl check until it ends as wanted: what changes of a role takes a moment.
// It says nothing of rights if says is "".
func awaitCheck(t *testing.T, c *cluster.Cluster, kubeconfig string, code int, says string) {
	t.Helper()
	plugins, err := filepath.Abs("../../../bin/plugins")
	must(t, err)
	runDir, err := os.MkdirTemp("", "run") // sockets need a short path
	must(t, err)
	defer os.RemoveAll(runDir)
	file, err := evictd.Configure(t.TempDir(), map[string]any{
		"nodeName": c.Node, "mode": "kubernetes", "kubeconfig": kubeconfig, "runtimeEndpoint": "unix://" + c.Socket, "pluginDir": plugins, "runDir": runDir,
		"kubeletRootDir": c.KubeletRootDir, "cgroupRoot": c.CgroupRoot, "evictionHard": map[string]any{"memory.available": "100Mi"},
	})
	must(t, err)
	ctx := soon(t)
	for {
		cmd := exec.CommandContext(ctx, "../../../bin/evictctl", "check", "--start-plugins=false", "--config", file)
		out, _ := cmd.CombinedOutput()
		said := string(out)
		if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == code && strings.Contains(said, says) && (says != "" || !strings.Contains(said, "not allowed")) {
			for line := range strings.Lines(said) {
				if strings.HasPrefix(line, "evictctl: ") {
					t.Log("  ", strings.TrimSpace(line))
				}
			}
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("check ends with %v, want code %d and %q: %s", cmd.ProcessState, code, says, said)
		}
	}
}

// While the API server is away for a minute a hog goes in time, and goes again when the
// kubelet, which knows nothing of it, starts it anew; when the API server is back it has
// the eviction, and nobody else's.
func TestAnEvictionOutlivesTheAPIServer(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("its minutes are part of make nightly; the gate has a restart of the API server")
	}
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	calm := deploy(t, c, "calm", sleeper())
	spec, station := newHog(t, c, "hog", 1536)
	hog := deploy(t, c, "hog", spec)
	p := beside(t, c, account(t, c), map[string]any{"evictionHard": leaveToEvictd(t, c, kubelet)})
	awaitMeasured(soon(t), t, c, calm, hog)

	must(t, c.KillPart(soon(t), "kube-apiserver"))
	gone := time.NewTimer(time.Minute)
	must(t, station.Release(soon(t)))
	said, err := p.Await(soon(t), func(r evictd.Record) bool { return r.Msg == "pod killed" })
	must(t, err)
	t.Logf("  killed without an API server in %v s", said.Attrs["tookSeconds"])
	<-gone.C
	must(t, c.StartPart(soon(t), "kube-apiserver"))
	began := time.Now()
	limited, cancel := context.WithTimeout(t.Context(), 2*maxWait) // a kubelet asks it again after a minute at the latest
	defer cancel()
	victim := awaitPod(limited, t, c, "hog", func(pod *v1.Pod) bool {
		return pod.UID == hog.UID && ended(pod) && condition(pod, v1.DisruptionTarget) != nil
	})
	t.Logf("  the API has the eviction %.1f s after it is back: %s %s", time.Since(began).Seconds(), victim.Status.Phase, victim.Status.Reason)
	if victim.Status.Phase != v1.PodFailed || victim.Annotations["evictd.io/evicted"] == "" {
		t.Errorf("pod %s is %s, annotations %v", victim.Name, victim.Status.Phase, victim.Annotations)
	}
	awaitEvent(soon(t), t, c, victim, "Evicted")
	awaitPod(soon(t), t, c, "hog", func(pod *v1.Pod) bool { return pod.UID != hog.UID && pod.Status.Phase == v1.PodRunning })
	spared(t, c, calm, p)
	must(t, p.Stop())
}
