package kubernetes_test

import (
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// The cluster comes up, a Deployment's pod runs and is reached, and goes on doing so
// when each part is restarted. Every user is whom the API server should take it for.
func TestClusterRunsADeployment(t *testing.T) {
	c := start(t, cluster.Options{})
	pod := deploy(t, c, "web", sleeper())
	t.Logf("  pod %s runs", pod.Name)
	if out, err := c.Kubectl(soon(t), "", "exec", pod.Name, "--", "echo", "here"); err != nil || out != "here\n" {
		t.Errorf("kubectl exec: %q, %v", out, err)
	}

	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), c.Node, metav1.GetOptions{})
	must(t, err)
	for name, bound := range map[string]*authenticationv1.BoundObjectReference{"pod": cluster.ToPod(pod), "node": cluster.ToNode(node)} {
		token, err := c.Token(t.Context(), "default", "default", bound)
		must(t, err)
		file, err := c.TokenKubeconfig("bound-to-"+name, token)
		must(t, err)
		if user, claim := whoami(t, file); user != "system:serviceaccount:default:default" || claim != c.Node {
			t.Errorf("token bound to the %s: user %q on node %q; want the ServiceAccount on %s", name, user, claim, c.Node)
		}
	}
	if user, _ := whoami(t, c.KubeletKubeconfig); user != c.NodeUser().Name {
		t.Errorf("the kubelet's kubeconfig: user %q, want %q", user, c.NodeUser().Name)
	}

	for _, part := range cluster.Parts {
		begin := time.Now()
		must(t, c.KillPart(soon(t), part))
		must(t, c.StartPart(soon(t), part))
		t.Logf("  %s killed and started in %.1f s", part, time.Since(begin).Seconds())
	}
	must(t, c.RestartPart(soon(t), "kubelet"))
	must(t, c.RestartPart(soon(t), "containerd"))
	deploy(t, c, "after", sleeper())
	pod = awaitPod(soon(t), t, c, "web", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
		t.Errorf("pod %s was restarted %d times while the parts were, want 0", pod.Name, restarts)
	}
}

// whoami returns whom the API server takes the user of a kubeconfig for, and the node
// that its token names.
func whoami(t *testing.T, kubeconfig string) (user, node string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(t, err)
	if names := review.Status.UserInfo.Extra["authentication.kubernetes.io/node-name"]; len(names) == 1 {
		node = names[0]
	}
	return review.Status.UserInfo.Username, node
}
