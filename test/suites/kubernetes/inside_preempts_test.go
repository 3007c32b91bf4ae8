package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
	"github.com/evictd/evictd/test/suites/kubernetes/record"
)

// A critical pod that comes to a node without room for it, past the scheduler, takes the place of the pod
// that the unmodified kubelet would take, and of no other: one with the priority, and a static one.
func TestInsideAKubeletCriticalPodsPreempt(t *testing.T) {
	requireNightly(t)
	c := start(t, cluster.Options{})
	pods := begin(t, c)
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), c.Node, metav1.GetOptions{})
	must(t, err)
	most := node.Status.Allocatable.Cpu().MilliValue() - 200
	asTheKubelet(t, c, nil, preemptedBut, func(by string) map[string]record.Fields {
		out := map[string]record.Fields{}
		must(t, c.Apply(soon(t), barePod("small-"+by, asking(100))))
		small := pods.await(t, "small-"+by, "runs", func(l life) bool { return ready(l.Pod) }).Pod
		for what, come := range map[string]func(name string){
			"for a pod with the priority": func(name string) {
				must(t, c.Apply(soon(t), barePod(name, with(asking(300), "priorityClassName: system-node-critical, nodeName: "+c.Node))))
			},
			"for a static pod": func(name string) {
				manifest := filepath.Join(c.ManifestDir, "critical.yaml")
				must(t, os.WriteFile(manifest, []byte(barePod(name, asking(300))), 0o600))
			},
		} {
			name := map[bool]string{true: "static-", false: "bare-"}[what == "for a static pod"] + by
			must(t, c.Apply(soon(t), barePod("large-"+name, asking(most))))
			pods.await(t, "large-"+name, "runs", func(l life) bool { return ready(l.Pod) })
			come(name)
			victim := pods.await(t, "large-"+name, "is preempted and has ended", func(l life) bool { return endedWithReason(l.Pod) }).Pod
			awaitEvent(soon(t), t, c, victim, "Preempting")
			if victim.Status.Reason != "Preempting" {
				t.Errorf("%s, %s: %q, %q; want Preempting", what, by, victim.Status.Reason, victim.Status.Message)
			}
			pods.await(t, name, "runs", func(l life) bool { return ready(l.Pod) })
			fields, err := record.Take(soon(t), c.Client, victim)
			must(t, err)
			out[what] = fields
			_ = os.Remove(filepath.Join(c.ManifestDir, "critical.yaml")) // one of the two has it
			_, err = c.Kubectl(soon(t), "", "delete", "pod", "--wait", "--ignore-not-found", name, "large-"+name, name+"-"+c.Node)
			must(t, err)
		}
		unharmed(t, c, small)
		_, err = c.Kubectl(soon(t), "", "delete", "pod", "--wait", "small-"+by)
		must(t, err)
		return out
	})
}

// asking is the spec of a pod that does nothing and asks for so many thousandths of a core.
func asking(milliCores int64) string {
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, containers: [
      {name: main, image: %s, imagePullPolicy: Never, command: [sleep, "100000"], resources: {requests: {cpu: %dm}}}]}`, stack.PodImage, milliCores)
}
