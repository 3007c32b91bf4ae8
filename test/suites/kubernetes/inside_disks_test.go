package kubernetes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
	"github.com/evictd/evictd/test/suites/kubernetes/record"
)

// On a small filesystem that has everything of the node, a kubelet with evictd inside first removes dead containers and images that are
// not used, and evicts a pod only when that is not enough, as the unmodified one does: for bytes, and for inodes.
func TestInsideAKubeletFullDisksAreRelieved(t *testing.T) {
	requireNightly(t)
	const mib = 1 << 20
	c := start(t, cluster.Options{
		Filesystems: []stack.Filesystem{{Path: "node", Type: "ext4", Bytes: 1200 * mib, Mkfs: []string{"-N", "24000"}}},
		KubeletRoot: "node/kubelet", PodLogs: "node/logs", RuntimeRoot: "node/containerd",
	})
	pods := begin(t, c)
	calm := deploy(t, c, "calm", sleeper())
	var disk unix.Statfs_t
	must(t, unix.Statfs(c.KubeletRootDir, &disk))
	hard := cluster.CalmThresholds()
	hard["nodefs.available"] = fmt.Sprintf("%dMi", int64(disk.Bavail)*disk.Bsize/mib-250)
	hard["nodefs.inodesFree"] = fmt.Sprint(disk.Ffree - 5000)
	t.Logf("  %d MiB and %d inodes are free, thresholds %v", int64(disk.Bavail)*disk.Bsize/mib, disk.Ffree, hard)
	keys := map[string]any{
		"evictionHard": hard, "evictionPressureTransitionPeriod": "1s", "volumeStatsAggPeriod": "2s", "imageMinimumGCAge": "1s",
	}
	asTheKubelet(t, c, keys, insideBut, func(by string) map[string]record.Fields {
		const unused = "localhost/e2e/unused:1"
		image := stack.BusyboxImage(unused, nil)
		image.FillerFiles, image.FillerBytes = 1, 80*mib
		must(t, c.Import(soon(t), image))
		must(t, c.ConfigureKubelet(soon(t), keys)) // which sees it in time: one that it has not seen for long stays
		// It has ended, and its container holds files.
		done := "done-" + by
		must(t, c.Apply(soon(t), barePod(done, with(filling("dd if=/dev/zero of=/file bs=1M count=40"), "restartPolicy: Never"))))
		ended := pods.await(t, done, "has ended", func(l life) bool { return l.Pod.Status.Phase == v1.PodSucceeded }).Pod
		dead := strings.TrimPrefix(ended.Status.ContainerStatuses[0].ContainerID, "containerd://")
		if images, containers := onDisk(t, c); !slices.Contains(images, unused) || !slices.Contains(containers, dead) {
			t.Fatalf("the unused image or the dead container is not there: %v, %v", images, containers)
		}

		must(t, c.Apply(soon(t), barePod("first-"+by, filling("dd if=/dev/zero of=/scratch/file bs=1M count=120; exec sleep 100000"))))
		first := pods.awaitWaiting(t, "first-"+by)
		awaitDiskPressure(t, c, v1.ConditionTrue)
		awaitDiskPressure(t, c, v1.ConditionFalse)
		if images, containers := onDisk(t, c); slices.Contains(images, unused) || slices.Contains(containers, dead) {
			t.Errorf("%s: the unused image or the dead container is still there: %v, %v", by, images, containers)
		}
		unharmed(t, c, first)
		out := map[string]record.Fields{}
		for _, fills := range []struct{ what, says, script string }{
			// Most of it comes before the crossing: the kubelet's figures of a pod are some seconds old.
			{"nodefs.available", "ephemeral-storage", "dd if=/dev/zero of=/scratch/file bs=1M count=100; sleep 10; dd if=/dev/zero of=/scratch/more bs=1M count=60; exec sleep 100000"},
			{"nodefs.inodesFree", "inodes", "i=0; while [ $i -lt 5500 ]; do if [ $i = 4500 ]; then sleep 10; fi; : >/scratch/$i; i=$((i+1)); done; exec sleep 100000"},
		} {
			name := strings.ToLower(strings.ReplaceAll(fills.what, ".", "-")) + "-" + by
			must(t, c.Apply(soon(t), barePod(name, filling(fills.script))))
			victim := pods.await(t, name, "is evicted and has ended", func(l life) bool { return condition(l.Pod, v1.DisruptionTarget) != nil && l.Pod.Status.Reason != "" }).Pod
			awaitEvent(soon(t), t, c, victim, "Evicted")
			if s := victim.Status; s.Reason != "Evicted" || !strings.HasPrefix(s.Message, "The node was low on resource: "+fills.says+". ") {
				t.Errorf("%s: %q, %q; want Evicted, low on %s", name, s.Reason, s.Message, fills.says)
			}
			t.Logf("  %s is evicted: %s", name, victim.Status.Message)
			disrupted(t, victim)
			awaitDiskPressure(t, c, v1.ConditionFalse)
			fields, err := record.Take(soon(t), c.Client, victim)
			must(t, err)
			out[fills.what] = fields
			_, err = c.Kubectl(soon(t), "", "delete", "pod", "--wait", name)
			must(t, err)
		}
		unharmed(t, c, first)
		unharmed(t, c, calm)
		_, err := c.Kubectl(soon(t), "", "delete", "pod", "--wait", first.Name, done)
		must(t, err)
		return out
	})
}

// onDisk are the names of the runtime's images and the ids of its containers.
func onDisk(t *testing.T, c *cluster.Cluster) (images, containers []string) {
	t.Helper()
	listed, err := c.Images.ListImages(soon(t), &runtimeapi.ListImagesRequest{})
	must(t, err)
	for _, image := range listed.Images {
		images = append(images, image.RepoTags...)
	}
	all, err := c.Runtime.ListContainers(soon(t), &runtimeapi.ListContainersRequest{})
	must(t, err)
	for _, container := range all.Containers {
		containers = append(containers, container.Id)
	}
	return images, containers
}

// awaitDiskPressure waits for the node's condition, and for the end of its taint with it.
func awaitDiskPressure(t *testing.T, c *cluster.Cluster, want v1.ConditionStatus) {
	t.Helper()
	_, err := c.AwaitNode(soon(t), func(n *v1.Node) bool {
		return cluster.NodeCondition(n, v1.NodeDiskPressure) == want && (want == v1.ConditionTrue || len(n.Spec.Taints) == 0)
	})
	must(t, err)
}

// filling is the spec of a pod with an emptyDir at /scratch that runs a script.
func filling(script string) string {
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, volumes: [{name: scratch, emptyDir: {}}], containers: [
      {name: main, image: %s, imagePullPolicy: Never, volumeMounts: [{name: scratch, mountPath: /scratch}], command: [sh, -c, %q]}]}`, stack.PodImage, script)
}
