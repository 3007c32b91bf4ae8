package kubernetes_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A pod over its emptyDir's limit was evicted by the kubelet, and evictctl evictions had no record of it. Each
// is listed once, and not what evictd evicted itself.
func TestEvictionsOfOthersAreListed(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("its minute is part of make nightly; the gate has package podsource/kubernetes")
	}
	c := start(t, cluster.Options{})
	config := map[string]any{"stateDir": t.TempDir(), "dryRun": true, "evictionHard": map[string]any{"memory.available": "1Mi"}}
	rights := account(t, c)
	p := beside(t, c, rights, config)
	must(t, c.Apply(soon(t), barePod("over", writer("/scratch", "30", "sizeLimit: 20Mi", "100Mi", "20Mi"))))
	must(t, c.Apply(soon(t), barePod("drained", sleeper())))
	over := awaitPod(soon(t), t, c, "over", func(p *v1.Pod) bool { return p.Status.Reason == "Evicted" })
	drained := awaitPod(soon(t), t, c, "drained", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	_, err := c.Kubectl(soon(t), "", "drain", c.Node, "--force", "--delete-emptydir-data", "--pod-selector=app=drained")
	must(t, err)

	stateDir := config["stateDir"].(string)
	byKubelet := awaitRow(soon(t), t, stateDir, "by the kubelet", "default/over")
	if !strings.Contains(byKubelet, over.Status.Message[:40]) {
		t.Errorf("%s: want the kubelet's message %q", byKubelet, over.Status.Message)
	}
	awaitRow(soon(t), t, stateDir, "by the eviction API", "default/"+drained.Name)
	text := evictdSays(soon(t), t, "explain", "--state-dir", stateDir, string(over.UID))
	if !strings.Contains(text, "default/over was evicted by the kubelet") || !strings.Contains(text, strings.TrimSpace(over.Status.Message)) {
		t.Errorf("explained: %s", text)
	}

	must(t, p.Stop())
	acts := maps.Clone(config)
	acts["dryRun"], acts["evictionHard"] = false, map[string]any{"nodefs.available": "99.9%"}
	p = beside(t, c, rights, acts) // has the pods anew
	_, err = c.Kubectl(soon(t), "", "uncordon", c.Node)
	must(t, err)
	must(t, c.Apply(soon(t), barePod("own", sleeper())))
	awaitPod(soon(t), t, c, "own", func(p *v1.Pod) bool { return p.Status.Reason == "Evicted" })
	must(t, p.Stop())

	p = beside(t, c, rights, config)
	must(t, c.Apply(soon(t), barePod("last", sleeper())))
	awaitPod(soon(t), t, c, "last", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	_, err = c.Kubectl(soon(t), "", "drain", c.Node, "--force", "--delete-emptydir-data", "--pod-selector=app=last")
	must(t, err)
	awaitRow(soon(t), t, stateDir, "by the eviction API", "default/last")
	list := evictdSays(soon(t), t, "evictions", "--state-dir", stateDir)
	if strings.Count(list, "  by the ") != 3 || !regexp.MustCompile(`  eviction +default/own `).MatchString(list) {
		t.Errorf("after restarts: %s", list)
	}
	t.Log(list)
	must(t, p.Stop())
}

// A Job's pod was evicted and is gone. Its owner, who may read events, pods and jobs of one namespace and no more,
// sees why in the job.
func TestTheOwnerOfAPodLearnsWhyItWent(t *testing.T) {
	c := start(t, cluster.Options{})
	p := beside(t, c, account(t, c), map[string]any{"stateDir": t.TempDir(), "evictionHard": map[string]any{"nodefs.available": "99.9%"}})
	must(t, c.Apply(soon(t), job("report", with(sleeper(), "restartPolicy: Never"), "backoffLimit: 0")+`---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: owner}
rules:
- {apiGroups: [""], resources: [events, pods], verbs: [get, list]}
- {apiGroups: [batch], resources: [jobs], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: owner}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: owner}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: owner}]
`))
	victim := awaitPod(soon(t), t, c, "report", func(p *v1.Pod) bool { return p.Status.Reason == "Evicted" && p.Annotations["evictd.io/why"] != "" })
	why := victim.Annotations["evictd.io/why"]
	asOwner := func(args ...string) string {
		t.Helper()
		out, err := c.Kubectl(soon(t), "", append([]string{"--as", "owner"}, args...)...)
		must(t, err)
		return out
	}
	of, err := c.Client.BatchV1().Jobs(victim.Namespace).Get(t.Context(), "report", metav1.GetOptions{})
	must(t, err)
	event := awaitEvent(soon(t), t, c, of, "PodEvicted")
	if event.Annotations["evictd.io/why"] != why || event.Annotations["evictd.io/record"] != victim.Annotations["evictd.io/record"] {
		t.Errorf("annotations %v of the job's event, %v of the pod", event.Annotations, victim.Annotations)
	}
	if said := asOwner("describe", "pod", victim.Name); !strings.Contains(said, "evictd.io/why: "+why) {
		t.Errorf("the pod does not say %q: %s", why, said)
	}
	_, err = c.Kubectl(soon(t), "", "delete", "pod", victim.Name)
	must(t, err)
	said := asOwner("describe", "job/report")
	for _, want := range []string{"PodEvicted", "Pod " + victim.Name + " was evicted from node " + c.Node + ": The node was low on resource: ephemeral-storage. ", " Why: " + why} {
		if !strings.Contains(said, want) {
			t.Errorf("the job does not say %q: %s", want, said)
		}
	}
	t.Log(said)
	if listed := asOwner("get", "events", "--field-selector", "reason=PodEvicted"); strings.Count(listed, "job/report") != 1 {
		t.Errorf("events: %s", listed)
	}
	if _, err := c.Kubectl(soon(t), "", "--as", "owner", "auth", "can-i", "create", "pods/exec", "--namespace", "evictd"); err == nil {
		t.Error("the owner may exec into evictd's pod")
	}
	must(t, p.Stop())
}

// awaitRow returns the row of evictctl evictions with all of these texts, once there is one.
func awaitRow(ctx context.Context, t *testing.T, stateDir string, texts ...string) string {
	t.Helper()
	for {
		list := evictdSays(ctx, t, "evictions", "--state-dir", stateDir)
	rows:
		for row := range strings.Lines(list) {
			for _, text := range texts {
				if !strings.Contains(row, text) {
					continue rows
				}
			}
			t.Log("  ", row)
			return row
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no row has %q: %s", texts, list)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func evictdSays(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(ctx, "../../../bin/evictctl", args...).CombinedOutput()
	if err != nil && ctx.Err() == nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}
