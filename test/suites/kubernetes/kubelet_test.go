package kubernetes_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
	"github.com/evictd/evictd/test/suites/kubernetes/record"
)

// The kubelet alone evicts a hog that crosses its hard threshold, and nobody else. What
// the API shows of that is what an eviction by evictd is held to, so two of them must
// be alike in every field that is compared.
func TestKubeletEvictsAHog(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("the kubelet without evictd is part of make nightly")
	}
	c := start(t, cluster.Options{Kubelet: narrow(t)})
	calm := deploy(t, c, "calm", sleeper())

	first, second := evictsAHog(t, c, calm, "first"), evictsAHog(t, c, calm, "second")
	for path, want := range map[string]string{
		"pod.status.phase":                         "Failed",
		"pod.status.reason":                        "Evicted",
		"pod.metadata.ownerReferences[OWNER].kind": "ReplicaSet",
		"owner.kind":                               "ReplicaSet",
		"owner.spec.replicas":                      "1",
		"events[Evicted].source.component":         "kubelet",
	} {
		if first[path] != want {
			t.Errorf("record: %s is %q, want %q", path, first[path], want)
		}
	}
	compare(t, first, second, byChance)

	calm, err := c.AwaitPod(soon(t), calm.Namespace, calm.Name, func(*v1.Pod) (bool, error) { return true, nil })
	must(t, err)
	if calm.Status.Phase != v1.PodRunning {
		t.Errorf("pod %s, which did nothing, is %s: %s", calm.Name, calm.Status.Phase, calm.Status.Message)
	}
}

// byChance are differences between evictions by the same kubelet.
var byChance = func() (out []record.Allowed) {
	for _, path := range []string{
		"pod.status.message", "pod.status.conditions[DisruptionTarget].message", "events[Evicted].message",
		"events[Evicted].metadata.annotations.offending_containers", "events[Evicted].metadata.annotations.offending_containers_usage",
	} {
		out = append(out, record.Allowed{Path: path, Sometimes: true, Why: "figures of before the crossing show no container above its request"})
	}
	for _, path := range []string{"gid", "uid", "supplementalGroups[*]"} {
		out = append(out, record.Allowed{
			Path: "pod.status.containerStatuses[main].user.linux." + path, Sometimes: true, Why: "a kubelet may leave it out of a container that has ended",
		})
	}
	return append(out, record.Allowed{
		Path: "pod.status.resources.limits.memory", Sometimes: true, Why: "seen with and without, of pods that have no limit",
	})
}()

// evictsAHog lets a hog of a Deployment cross the threshold of whoever evicts, and returns what
// that leaves. The Deployment is removed, and the pressure is over.
func evictsAHog(t *testing.T, c *cluster.Cluster, calm *v1.Pod, name string) record.Fields {
	t.Helper()
	spec, station := newHog(t, c, name, 1536)
	awaitMeasured(soon(t), t, c, calm, deploy(t, c, name, spec))
	must(t, station.Release(soon(t)))
	victim := awaitPod(soon(t), t, c, name, endedWithReason)
	awaitEvent(soon(t), t, c, victim, "Evicted")
	evicted(t, victim)
	t.Logf("  evicted: %s", victim.Status.Message)
	replacement := awaitPod(soon(t), t, c, name, func(p *v1.Pod) bool { return p.UID != victim.UID && p.Status.Phase == v1.PodRunning })
	t.Logf("  the replacement %s runs", replacement.Name)
	awaitAvailable(soon(t), t, c, name)
	fields, err := record.Take(soon(t), c.Client, victim)
	must(t, err)
	_, err = c.Kubectl(soon(t), "", "delete", "deployment", name, "--cascade=foreground", "--wait")
	must(t, err)
	_, err = c.AwaitNode(soon(t), func(n *v1.Node) bool {
		return cluster.NodeCondition(n, v1.NodeMemoryPressure) == v1.ConditionFalse && len(n.Spec.Taints) == 0
	})
	must(t, err)
	return fields
}

// compare fails the test for each difference that is not allowed, and for each allowed
// one that is not there.
func compare(t *testing.T, left, right record.Fields, allowed []record.Allowed) {
	t.Helper()
	unexpected, unused := record.Compare(left, right, allowed)
	for _, d := range unexpected {
		t.Errorf("differs: %s", d)
	}
	for _, a := range unused {
		t.Errorf("does not differ, though it may (%s): %s", a.Why, a.Path)
	}
	t.Logf("  %d fields compared", len(left))
}

// narrow are keys of a kubelet that leaves its pods 3 GiB of the machine, and evicts when
// they use more than 1 GiB: whatever else the machine does, only the pods cross that.
func narrow(t *testing.T) map[string]any { return confined(t, 3<<10, 1<<10) }

// confined are keys of a kubelet that leaves its pods so many MiB of the machine, and
// evicts when they use more than mayUse of them.
func confined(t *testing.T, leaves, mayUse int64) map[string]any {
	t.Helper()
	var machine unix.Sysinfo_t
	must(t, unix.Sysinfo(&machine))
	total := int64(machine.Totalram) * int64(machine.Unit)
	if want := leaves + 3<<10; total>>20 < want {
		t.Skipf("SKIPPED, NOTHING TESTED: the machine has %d MiB of memory, want %d MiB", total>>20, want)
	}
	hard := cluster.CalmThresholds()
	hard["memory.available"] = fmt.Sprintf("%dMi", leaves-mayUse)
	return map[string]any{
		"systemReserved":                   map[string]any{"memory": strconv.FormatInt(total-leaves<<20, 10)},
		"evictionHard":                     hard,
		"evictionPressureTransitionPeriod": "1s",
	}
}

// evictd runs beside the kubelet and finds the cgroups of the kubelet's pods.
func TestEvictdRunsBesideTheKubelet(t *testing.T) {
	c := start(t, cluster.Options{})
	deploy(t, c, "web", sleeper())
	p := startEvictd(t, c, map[string]any{"podManifestDir": c.ManifestDir, "evictionHard": map[string]any{"memory.available": "1Mi"}})
	found, err := p.Await(soon(t), func(r evictd.Record) bool { return r.Msg == "cgroups of pods" })
	must(t, err)
	if found.String("driver") != "cgroupfs" || found.String("seenBy") == "" {
		t.Errorf("evictd found %v; want the driver cgroupfs, seen", found.Attrs)
	}
	must(t, p.Stop())
}
