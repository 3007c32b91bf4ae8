package kubernetes_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
	"github.com/evictd/evictd/test/suites/kubernetes/record"
)

// A pod that writes more than its limits allow is evicted by a kubelet with evictd inside as by
// the unmodified one, and one that writes less is not: the size of an emptyDir, the files of a container, and both together.
func TestInsideAKubeletLimitsOfFilesHold(t *testing.T) {
	requireNightly(t)
	c := start(t, cluster.Options{})
	pods := begin(t, c)
	asTheKubelet(t, c, nil, insideBut, func(by string) map[string]record.Fields {
		must(t, c.Apply(soon(t), barePod("within-"+by, writer("/scratch", "10", "sizeLimit: 20Mi", "20Mi", "20Mi"))))
		within := awaitPod(soon(t), t, c, "within-"+by, func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
		out := map[string]record.Fields{}
		for _, w := range []struct{ what, spec, message string }{
			{"size of an emptyDir", writer("/scratch", "30", "sizeLimit: 20Mi", "100Mi", "20Mi"), `Usage of EmptyDir volume "scratch" exceeds the limit "20Mi". `},
			{"files of a container", writer("", "30", "", "20Mi", "100Mi"), `Container main exceeded its local ephemeral storage limit "20Mi". `},
			{"all of a pod", writer("/scratch", "30", "", "10Mi", "10Mi"), "Pod ephemeral local storage usage exceeds the total limit of containers 20Mi. "},
		} {
			name := fmt.Sprintf("pod%d-%s", len(out), by)
			must(t, c.Apply(soon(t), barePod(name, w.spec)))
			victim := pods.await(t, name, "is evicted and has ended", func(l life) bool { return endedWithReason(l.Pod) }).Pod
			awaitEvent(soon(t), t, c, victim, "Evicted")
			if victim.Status.Reason != "Evicted" || victim.Status.Message != w.message {
				t.Errorf("%s, %s: %q, %q; want Evicted, %q", w.what, by, victim.Status.Reason, victim.Status.Message, w.message)
			}
			fields, err := record.Take(soon(t), c.Client, victim)
			must(t, err)
			out[w.what] = fields
		}
		unharmed(t, c, within)
		return out
	})
}

// writer is the spec of a pod that writes so many MiB below a directory, "" for its own files, with
// fields of its emptyDir, a limit, and one of a container that writes nothing.
func writer(dir, mib, emptyDir, limit, others string) string {
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, volumes: [{name: scratch, emptyDir: {%[1]s}}], containers: [
      {name: main, image: %[2]s, imagePullPolicy: Never, volumeMounts: [{name: scratch, mountPath: /scratch}],
       command: [sh, -c, "dd if=/dev/zero of=%[3]s/file bs=1M count=%[4]s; exec sleep 100000"], resources: {limits: {ephemeral-storage: %[5]s}}},
      {name: idle, image: %[2]s, imagePullPolicy: Never, command: [sleep, "100000"], resources: {limits: {ephemeral-storage: %[6]s}}}]}`, emptyDir, stack.PodImage, dir, mib, limit, others)
}
