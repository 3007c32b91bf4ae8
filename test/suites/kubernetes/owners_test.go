package kubernetes_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
	"github.com/evictd/evictd/test/suites/kubernetes/record"
)

// An owner is a kind of thing that a pod may belong to.
type owner struct {
	kind string
	// pod are fields of the pod's spec, manifest is one with the name and such a pod.
	pod      string
	manifest func(name, podSpec string) string
	// replaces says that it makes another pod in place of one that was evicted, removes that
	// it deletes that first.
	replaces, removes bool
	// settled waits until its status speaks of a pod that runs, and returns what else is to
	// be compared.
	settled func(s *owners, t *testing.T, name string) []any
	// but are the ways in which its pod may differ, beside those of all.
	but []record.Allowed
}

// alikeBut are the ways in which what evictd leaves differs from what the kubelet leaves.
var alikeBut = append([]record.Allowed{
	{Path: "events[Evicted].reportingComponent", Left: "kubelet", Right: "evictd", Why: "who tells of it"},
	{Path: "events[Evicted].source.component", Left: "kubelet", Right: "evictd", Why: "who tells of it"},
	{Path: "pod.metadata.annotations.evictd.io/evicted", Left: "(none)", Why: "the record of the eviction, which has the kubelet act"},
	{Path: "pod.metadata.annotations.evictd.io/record", Left: "(none)", Why: "which record of a decision is the eviction's"},
	{Path: "pod.metadata.annotations.evictd.io/why", Left: "(none)", Why: "why it went, for its owner"},
	{Path: "events[Evicted].metadata.annotations.evictd.io/why", Left: "(none)", Why: "why it went, for its owner"},
	{Path: "events[Evicted].metadata.annotations.evictd.io/record", Left: "(none)", Why: "which record of a decision is the eviction's"},
	{Path: "ownerEvents[PodEvicted].*", Left: "(none)", Sometimes: true, Why: "why its pod went, for the owner of a controller"},
	{Path: "ownerEvents[PodEvicted].*.*", Left: "(none)", Sometimes: true, Why: "why its pod went, for the owner of a controller"},
	{Path: "ownerEvents[PodEvicted].metadata.annotations.evictd.io/*", Left: "(none)", Sometimes: true, Why: "why its pod went, for the owner of a controller"},
	{Path: exitCode, Left: "143", Right: "137", Sometimes: true, Why: slowToEnd},
	{Path: exitCode, Left: "137", Right: "143", Sometimes: true, Why: slowToEnd},
}, byChance...)

const (
	exitCode  = "pod.status.containerStatuses[main].state.terminated.exitCode"
	slowToEnd = "on a busy machine a process may need more than its second, and is killed"
)

// endsLater allows the differences of a pod that is deleted as soon as it has failed, so that
// its end is never reported: with evictd a pod has failed before its containers have ended.
var endsLater = func() (out []record.Allowed) {
	const why = "the pod is deleted as soon as it has failed"
	for _, path := range []string{
		"pod.status.conditions[ContainersReady].*", "pod.status.conditions[Ready].*", "pod.status.conditions[PodReadyToStartContainers].*",
		"pod.status.containerStatuses[main].ready", "pod.status.containerStatuses[main].started", "pod.status.containerStatuses[main].state.*.*",
	} {
		out = append(out, record.Allowed{Path: path, Sometimes: true, Why: why})
	}
	// The kubelet's first write after the eviction has no reason, and its next one comes after the deletion.
	return append(out, record.Allowed{Path: "pod.status.reason", Left: "Evicted", Right: "(none)", Sometimes: true, Why: why})
}()

// losesContainers allows the differences of a pod of which the kubelet has lost its own
// container, so that its exit status is unknown. With evictd it does not.
var losesContainers = func() (out []record.Allowed) {
	for _, path := range []string{"*", "*.*", "*.*.*", "*.*.*.*"} {
		out = append(out, record.Allowed{Path: "pod.status.containerStatuses[main]." + path, Sometimes: true, Why: "the kubelet has lost the container"})
	}
	return out
}()

// containerStatusUnknown is the reason of a container that the kubelet has lost
// (pkg/kubelet/container, ContainerReasonStatusUnknown).
const containerStatusUnknown = "ContainerStatusUnknown"

// lostIn reports whether a record is of a pod of which the kubelet has lost its container.
func lostIn(pod record.Fields) bool {
	const main = "pod.status.containerStatuses[main]."
	return pod[main+"state.terminated.reason"] == containerStatusUnknown || pod[main+"lastState.terminated.reason"] == containerStatusUnknown
}

var kinds = []owner{
	{kind: "deployment", manifest: deployment, replaces: true, settled: deploymentRuns},
	{kind: "statefulset", manifest: statefulSet, replaces: true, removes: true, settled: func(s *owners, t *testing.T, name string) []any {
		settled(s, t, s.c.Client.AppsV1().RESTClient(), "statefulsets", name, func(o *appsv1.StatefulSet) bool {
			return o.Status.ObservedGeneration == o.Generation && o.Status.AvailableReplicas == 1 && o.Status.Replicas == 1
		})
		return nil
	}, but: endsLater},
	{kind: "pod", manifest: barePod, settled: nothingElse},
	{kind: "job-never", pod: "restartPolicy: Never", manifest: func(name, podSpec string) string {
		return job(name, podSpec, `podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}]}`)
	}, replaces: true, settled: jobRuns(0)},
	{kind: "job-onfailure", pod: "restartPolicy: OnFailure", manifest: func(name, podSpec string) string { return job(name, podSpec, "") }, replaces: true, settled: jobRuns(1)},
	{kind: "budget", manifest: func(name, podSpec string) string {
		return deployment(name, podSpec) + fmt.Sprintf(`
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: %[1]s}
spec: {minAvailable: 1, selector: {matchLabels: {app: %[1]s}}}
`, name)
	}, replaces: true, settled: func(s *owners, t *testing.T, name string) []any {
		deploymentRuns(s, t, name)
		return []any{s.budget(t, name)}
	}},
}

func statefulSet(name, podSpec string) string { return controller("StatefulSet", name, podSpec) }

func barePod(name, podSpec string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec: %[2]s
`, name, podSpec)
}

// job is one with more fields of its spec.
func job(name, podSpec, more string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %[1]s}
spec:
  %[3]s
  template:
    metadata: {labels: {app: %[1]s}}
    spec: %[2]s
`, name, podSpec, more)
}

func nothingElse(*owners, *testing.T, string) []any { return nil }

func deploymentRuns(s *owners, t *testing.T, name string) []any {
	awaitAvailable(soon(t), t, s.c, name)
	return nil
}

// jobRuns is of a Job that counts so many failures once a pod of it was evicted.
func jobRuns(failed int32) func(*owners, *testing.T, string) []any {
	return func(s *owners, t *testing.T, name string) []any {
		settled(s, t, s.c.Client.BatchV1().RESTClient(), "jobs", name, func(o *batchv1.Job) bool {
			u := o.Status.UncountedTerminatedPods
			return o.Status.Ready != nil && *o.Status.Ready == 1 && o.Status.Active == 1 && o.Status.Failed == failed && (u == nil || len(u.Failed) == 0)
		})
		return nil
	}
}

func settled[T runtime.Object](s *owners, t *testing.T, client cache.Getter, resource, name string, done func(T) bool) {
	t.Helper()
	_, err := cluster.Await(soon(t), client, resource, metav1.NamespaceDefault, fields.OneTermEqualSelector(metav1.ObjectNameField, name), func(o T) (bool, error) { return done(o), nil })
	must(t, err)
}

// budget waits until the disruption budget with the name allows none, because it has the
// one pod that it wants.
func (s *owners) budget(t *testing.T, name string) *policyv1.PodDisruptionBudget {
	t.Helper()
	b, err := cluster.Await(soon(t), s.c.Client.PolicyV1().RESTClient(), "poddisruptionbudgets", metav1.NamespaceDefault, fields.OneTermEqualSelector(metav1.ObjectNameField, name),
		func(b *policyv1.PodDisruptionBudget) (bool, error) {
			return b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy == 1 && b.Status.DisruptionsAllowed == 0, nil
		})
	must(t, err)
	return b
}

// owners are a cluster in which a pod of each kind of owner is evicted.
type owners struct {
	c    *cluster.Cluster
	calm *v1.Pod
	pods *chronicle
}

// A left records what is left of a pod, and the times at which others saw it failed and
// replaced, in milliseconds from its SIGTERM; its process goes on for lingerMillis.
type left struct {
	record.Fields
	failed, replaced float64
}

// lingerMillis is the time that a hog goes on after SIGTERM: less than any grace.
const lingerMillis = 200

// evictAll has a pod of each kind of owner cross the threshold of whoever evicts. All are
// gone in the end, and so is the pressure.
func (s *owners) evictAll(t *testing.T, by string) map[string]left {
	t.Helper()
	var manifests strings.Builder
	stations := map[string]hog.Station{}
	for _, o := range kinds {
		name := o.kind + "-" + by
		spec, station := newHog(t, s.c, name, 640, "--term-delay-ms", fmt.Sprint(lingerMillis))
		if o.pod != "" {
			spec = with(spec, o.pod)
		}
		manifests.WriteString("---" + o.manifest(name, spec))
		stations[o.kind] = station
	}
	must(t, s.c.Apply(soon(t), manifests.String()))
	victims := map[string]*v1.Pod{}
	for _, o := range kinds {
		victims[o.kind] = s.pods.awaitWaiting(t, o.kind+"-"+by)
	}
	awaitMeasured(soon(t), t, s.c, append(slices.Collect(maps.Values(victims)), s.calm)...)
	s.refusesToDisrupt(t, victims["budget"])

	// Of a pod that has just come the kubelet knows nothing and takes it for the worst, so
	// that replacements would go, too. They have to wait.
	s.schedulable(t, false)
	for _, o := range kinds {
		must(t, stations[o.kind].Release(soon(t)))
	}
	for _, o := range kinds {
		v := victims[o.kind]
		l := s.pods.await(t, o.kind+"-"+by, "is evicted and has ended", is(v.UID, func(l life) bool {
			return l.Gone || endedWithReason(l.Pod) && condition(l.Pod, v1.DisruptionTarget) != nil
		}))
		victims[o.kind] = l.Pod
		awaitEvent(soon(t), t, s.c, l.Pod, "Evicted")
	}
	_, err := s.c.AwaitNode(soon(t), func(n *v1.Node) bool { return cluster.NodeCondition(n, v1.NodeMemoryPressure) == v1.ConditionFalse })
	must(t, err)
	s.schedulable(t, true)

	out := map[string]left{}
	for _, o := range kinds {
		out[o.kind] = s.leftOf(t, o, victims[o.kind], stations[o.kind])
	}
	_, err = s.c.Kubectl(soon(t), manifests.String(), "delete", "--cascade=foreground", "--wait", "-f", "-")
	must(t, err)
	return out
}

// leftOf returns what is left of a victim when its owner has come to rest.
func (s *owners) leftOf(t *testing.T, o owner, victim *v1.Pod, station hog.Station) left {
	t.Helper()
	app := victim.Labels["app"]
	at, err := station.Stamps()
	must(t, err)
	since := func(ns int64) float64 { return float64(ns-at["term"]) / 1e6 }
	var out left
	if o.replaces {
		next := s.pods.await(t, app, "replaces another", func(l life) bool { return l.Pod.UID != victim.UID && !l.Gone && ready(l.Pod) })
		out.replaced = since(next.SeenAt)
	}
	others := o.settled(s, t, app)
	final := s.pods.await(t, app, "is let go by its owner", is(victim.UID, func(l life) bool {
		return l.Gone == o.removes && !slices.Contains(l.Pod.Finalizers, batchv1.JobTrackingFinalizer)
	}))
	out.failed = since(final.FailedAt)
	if final.Pod.Annotations["evictd.io/evicted"] != "" { // how the kubelet does it is no matter of ours
		if o.removes && final.Pod.Status.Reason == "" { // see endsLater
			disrupted(t, final.Pod)
		} else {
			evicted(t, final.Pod)
		}
	}
	for _, lost := range final.Lost {
		t.Errorf("pod %s has lost %s", victim.Name, lost)
	}
	out.Fields, err = record.Take(soon(t), s.c.Client, final.Pod, others...)
	must(t, err)
	return out
}

// refusesToDisrupt fails the test unless the pod may not be evicted through the API: its
// budget allows none.
func (s *owners) refusesToDisrupt(t *testing.T, p *v1.Pod) {
	t.Helper()
	s.budget(t, p.Labels["app"])
	err := s.c.Client.PolicyV1().Evictions(p.Namespace).Evict(soon(t), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
	if !apierrors.IsTooManyRequests(err) {
		t.Fatalf("an eviction of %s through the API: %v; want it to be refused", p.Name, err)
	}
}

// schedulable lets new pods come to the node, or wait.
func (s *owners) schedulable(t *testing.T, yes bool) {
	t.Helper()
	verb := map[bool]string{true: "uncordon", false: "cordon"}[yes]
	_, err := s.c.Kubectl(soon(t), "", verb, s.c.Node)
	must(t, err)
	_, err = s.c.AwaitNode(soon(t), func(n *v1.Node) bool { return yes == (len(n.Spec.Taints) == 0) })
	must(t, err)
}

// With evictd beside it, the API shows of an eviction what it shows of the kubelet's own,
// whatever the pod belongs to: the pod, its owner and the events of both are alike in
// every field but the known ones (EVICTD_RUNS).
func TestAnEvictionLooksAsTheKubelets(t *testing.T) {
	runs := number(t, "EVICTD_RUNS", 5)
	kubelet := confined(t, 5<<10, 512)
	c := start(t, cluster.Options{Kubelet: kubelet})
	s := &owners{c: c, calm: deploy(t, c, "calm", sleeper()), pods: begin(t, c)}
	rights := account(t, c)
	compared := map[string]*comparison{}
	for run := range runs {
		if run > 0 {
			must(t, c.ConfigureKubelet(soon(t), kubelet))
		}
		byKubelet := s.evictAll(t, fmt.Sprintf("kubelets-%d", run+1))
		p := beside(t, c, rights, map[string]any{"evictionHard": leaveToEvictd(t, c, kubelet)})
		byEvictd := s.evictAll(t, fmt.Sprintf("evictds-%d", run+1))
		if n := len(p.Records("evicting pod")); n != len(kinds) {
			t.Errorf("run %d: evictd evicted %d pods, want %d", run+1, n, len(kinds))
		}
		must(t, p.Stop())
		for _, o := range kinds {
			if compared[o.kind] == nil {
				compared[o.kind] = &comparison{}
			}
			compared[o.kind].add(t, fmt.Sprintf("run %d, %s", run+1, o.kind), byKubelet[o.kind], byEvictd[o.kind], slices.Concat(alikeBut, o.but))
		}
	}
	unharmed(t, c, s.calm)
	t.Logf("  pods evicted by the kubelet and by evictd, %d each; ms from SIGTERM, where the process ends after %d\n%s", runs, lingerMillis, comparisons(compared))
}

// A comparison is of evictions of pods of one kind of owner.
type comparison struct {
	fields, differ, lost                               int // the most of all runs; how often the kubelet lost the container
	failed, failedKubelet, replaced, replacedByKubelet []float64
}

func (c *comparison) add(t *testing.T, what string, byKubelet, byEvictd left, allowed []record.Allowed) {
	t.Helper()
	if lostIn(byKubelet.Fields) {
		c.lost++
		allowed = append(allowed, losesContainers...)
	}
	unexpected, unused := record.Compare(byKubelet.Fields, byEvictd.Fields, allowed)
	for _, d := range unexpected {
		t.Errorf("%s differs: %s", what, d)
	}
	for _, a := range unused {
		t.Errorf("%s does not differ, though it may (%s): %s", what, a.Why, a.Path)
	}
	all, _ := record.Compare(byKubelet.Fields, byEvictd.Fields, nil)
	c.fields, c.differ = max(c.fields, len(byKubelet.Fields)), max(c.differ, len(all))
	c.failed, c.failedKubelet = append(c.failed, byEvictd.failed), append(c.failedKubelet, byKubelet.failed)
	c.replaced, c.replacedByKubelet = append(c.replaced, byEvictd.replaced), append(c.replacedByKubelet, byKubelet.replaced)
}

func comparisons(all map[string]*comparison) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "owner\tfields\tdiffer, as they may\tlost by the kubelet\tFailed: kubelet\tevictd\treplacement made: kubelet\tevictd\t")
	for _, o := range kinds {
		c := all[o.kind]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.0f\t%.0f\t", o.kind, c.fields, c.differ, c.lost, median(c.failedKubelet), median(c.failed))
		if o.replaces {
			fmt.Fprintf(w, "%.0f\t%.0f\t\n", median(c.replacedByKubelet), median(c.replaced))
		} else {
			fmt.Fprint(w, "-\t-\t\n")
		}
	}
	_ = w.Flush() // into memory
	return out.String()
}
