package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// deployment is one of one pod, whose label app is the name.
func deployment(name, podSpec string) string {
	return controller("Deployment", name, podSpec)
}

func controller(kind, name, podSpec string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: %[1]s
metadata: {name: %[2]s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}}
    spec: %[3]s
`, kind, name, podSpec)
}

// deploy applies a deployment, and returns its pod when that runs.
func deploy(t *testing.T, c *cluster.Cluster, name, podSpec string) *v1.Pod {
	t.Helper()
	must(t, c.Apply(soon(t), deployment(name, podSpec)))
	return awaitAvailable(soon(t), t, c, name)
}

// sleeper is the spec of a pod that does nothing. It asks for so much more than it uses
// that others are evicted first.
func sleeper() string {
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, containers: [
      {name: main, image: %s, imagePullPolicy: Never, command: [sleep, "100000"], resources: {requests: {memory: 256Mi}}}]}`, stack.PodImage)
}

// newHog makes a station below the cluster's directory, and the spec of a pod that waits there to be
// released before it takes its memory, and ends with 143 on SIGTERM. A
// replacement waits there in its turn. Flags are more arguments of the hog.
func newHog(t *testing.T, c *cluster.Cluster, name string, mib int, flags ...string) (spec string, station hog.Station) {
	t.Helper()
	station, err := hog.NewStation(filepath.Join(c.Dir, "stations", name))
	must(t, err)
	var more strings.Builder
	for _, flag := range flags {
		fmt.Fprintf(&more, ", %q", flag)
	}
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1,
      volumes: [{name: station, hostPath: {path: %s}}],
      containers: [{name: main, image: %s, imagePullPolicy: Never, resources: {requests: {memory: 16Mi}},
        command: [/bin/hog, --mib, "%d", --exit, "143", --go, /station/go, --stamp, /station/stamps%s],
        volumeMounts: [{name: station, mountPath: /station}]}]}`, station.Dir, hog.Image, mib, more.String()), station
}

// with adds fields, such as "restartPolicy: Never", to the spec of a pod.
func with(podSpec, fields string) string {
	return "{" + fields + ", " + strings.TrimPrefix(podSpec, "{")
}

// awaitAvailable waits until all pods of a Deployment run, and returns the first that does.
func awaitAvailable(ctx context.Context, t *testing.T, c *cluster.Cluster, name string) *v1.Pod {
	t.Helper()
	_, err := cluster.Await(ctx, c.Client.AppsV1().RESTClient(), "deployments", metav1.NamespaceDefault, fields.OneTermEqualSelector("metadata.name", name), func(d *appsv1.Deployment) (bool, error) {
		return d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == *d.Spec.Replicas, nil
	})
	must(t, err)
	return awaitPod(ctx, t, c, name, func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
}

// awaitPod waits for a pod of the app of which done is true.
func awaitPod(ctx context.Context, t *testing.T, c *cluster.Cluster, app string, done func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	pod, err := c.AwaitPod(ctx, metav1.NamespaceDefault, "", func(p *v1.Pod) (bool, error) {
		return p.Labels["app"] == app && done(p), nil
	})
	must(t, err)
	return pod
}

// awaitYounger waits until a pod that starts is younger than this one: start times are in whole seconds.
func awaitYounger(t *testing.T, pod *v1.Pod) {
	t.Helper()
	must(t, stack.Pause(soon(t), time.Until(pod.Status.StartTime.Add(time.Second))))
}

// awaitMeasured waits until the kubelet, which may have been started anew, knows the pods and
// has measured their memory: it takes one that it knows nothing of for the worst.
func awaitMeasured(ctx context.Context, t *testing.T, c *cluster.Cluster, pods ...*v1.Pod) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		known, err := c.Kubelet.Pods(ctx) // just after a start of the kubelet an error
		measured, failed := c.Kubelet.Summary(ctx)
		missing := slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool {
			return measured[p.UID] > 0 && slices.ContainsFunc(known, func(k v1.Pod) bool { return k.UID == p.UID })
		})
		if len(missing) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the kubelet does not know %s, or has not measured it: %v, %v", missing[0].Name, ctx.Err(), errors.Join(err, failed))
		case <-tick.C:
		}
	}
}

// awaitEvent waits for an event about the object with the reason.
func awaitEvent(ctx context.Context, t *testing.T, c *cluster.Cluster, about metav1.Object, reason string) *v1.Event {
	t.Helper()
	event, err := cluster.Await(ctx, c.Client.CoreV1().RESTClient(), "events", about.GetNamespace(), fields.Everything(), func(e *v1.Event) (bool, error) {
		return e.InvolvedObject.UID == about.GetUID() && e.Reason == reason, nil
	})
	must(t, err)
	return event
}

// ended reports whether nothing of the pod runs any more, as far as the API shows.
func ended(p *v1.Pod) bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated == nil {
			return false
		}
	}
	return p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded
}

// endedWithReason reports whether nothing of the pod runs any more and the API shows why. A kubelet that is late writes that
// the containers have ended, and the reason a moment later.
func endedWithReason(p *v1.Pod) bool { return ended(p) && p.Status.Reason != "" }

// condition is a condition of the pod, nil if it has none of the type.
func condition(p *v1.Pod, kind v1.PodConditionType) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// evicted fails the test unless the pod shows all that the kubelet's eviction for memory shows.
func evicted(t *testing.T, p *v1.Pod) {
	t.Helper()
	if p.Status.Phase != v1.PodFailed || p.Status.Reason != "Evicted" || !strings.HasPrefix(p.Status.Message, "The node was low on resource: memory. ") {
		t.Errorf("pod %s is %s, %q, %q; want Failed, Evicted, low on memory", p.Name, p.Status.Phase, p.Status.Reason, p.Status.Message)
	}
	disrupted(t, p)
}

// disrupted fails the test unless the pod has what stays of an eviction whatever the kubelet writes.
func disrupted(t *testing.T, p *v1.Pod) {
	t.Helper()
	if p.Status.Phase != v1.PodFailed {
		t.Errorf("pod %s is %s, want Failed", p.Name, p.Status.Phase)
	}
	if target := condition(p, v1.DisruptionTarget); target == nil || target.Status != v1.ConditionTrue || target.Reason != v1.PodReasonTerminationByKubelet {
		t.Errorf("condition DisruptionTarget of pod %s: %+v; want True, TerminationByKubelet", p.Name, target)
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.RestartCount != 0 && !lost(s) { // a kubelet counts one that it has lost as restarted
			t.Errorf("container %s of pod %s was restarted %d times, want 0", s.Name, p.Name, s.RestartCount)
		}
	}
}

// lost reports whether the kubelet has lost a container of a pod that ends, so that it does not
// know how that ended.
func lost(s v1.ContainerStatus) bool {
	for _, state := range []v1.ContainerState{s.State, s.LastTerminationState} {
		if state.Terminated != nil && state.Terminated.Reason == containerStatusUnknown {
			return true
		}
	}
	return false
}
