package kubernetes_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A shortage is one that a pod makes by a shell command, with a volume at /data.
type shortage struct {
	name, command string
	// volume has fields of the pod's emptyDir.
	volume string
	// hard is the threshold that is crossed then, empty for a limit of the pod's own.
	hard func(t *testing.T, c *cluster.Cluster) (signal, value string)
	// message begins that of the eviction.
	message string
}

const writes1GiB = "dd if=/dev/zero of=/data/file bs=1M count=1024 2>/dev/null"

// Beside a kubelet evictd evicts for disk, inodes and process ids, and for the limits of a pod's own, as for memory.
func TestEveryShortageOnACluster(t *testing.T) {
	// The kubelet leaves all of them to evictd.
	c := start(t, cluster.Options{Kubelet: map[string]any{"evictionHard": cluster.CalmThresholds(), "localStorageCapacityIsolation": false}})
	calm := deploy(t, c, "calm", sleeper())
	rights := account(t, c)
	for i, s := range []shortage{
		{
			name: "nodefs.available", command: writes1GiB, message: "The node was low on resource: ephemeral-storage. ",
			hard: func(t *testing.T, c *cluster.Cluster) (string, string) {
				return "nodefs.available", strconv.FormatUint(statfs(t, c).Bavail*uint64(statfs(t, c).Bsize)-600<<20, 10)
			},
		},
		{
			name: "nodefs.inodesFree", command: "for i in $(seq 40000); do : >/data/$i; done", message: "The node was low on resource: inodes. ",
			hard: func(t *testing.T, c *cluster.Cluster) (string, string) {
				return "nodefs.inodesFree", strconv.FormatUint(statfs(t, c).Ffree-25000, 10)
			},
		},
		{
			name: "pid.available", command: "for i in $(seq 800); do sleep 1000 & done", message: "The node was low on resource: pids. ",
			hard: func(t *testing.T, _ *cluster.Cluster) (string, string) {
				return "pid.available", strconv.Itoa(tasksAvailable(t) - 500)
			},
		},
		{name: "sizeLimit of an emptyDir", command: writes1GiB, volume: "sizeLimit: 300Mi", message: `Usage of EmptyDir volume "data" exceeds the limit "300Mi". `},
	} {
		t.Run(s.name, func(t *testing.T) {
			if s.hard == nil && os.Getenv("EVICTD_NIGHTLY") == "" {
				t.Skip("limits are looked at once in a minute: part of make nightly")
			}
			config := map[string]any{"evictionHard": map[string]any{}}
			if s.hard != nil {
				signal, value := s.hard(t, c)
				config["evictionHard"] = map[string]any{signal: value}
			}
			p := beside(t, c, rights, config)
			app := fmt.Sprint("short-", i)
			began := time.Now()
			must(t, c.Apply(t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  volumes: [{name: data, emptyDir: {%[2]s}}]
  containers:
  - {name: main, image: %[3]s, imagePullPolicy: Never, command: [sh, -c, "%[4]s; sleep 1000"], volumeMounts: [{name: data, mountPath: /data}]}
`, app, s.volume, stack.PodImage, s.command)))
			victim := awaitPod(soon(t), t, c, app, endedWithReason)
			t.Logf("  %-25s evicted %4.1f s after it was made: %s", s.name, time.Since(began).Seconds(), victim.Status.Message)
			if victim.Status.Reason != "Evicted" || !strings.HasPrefix(victim.Status.Message, s.message) {
				t.Errorf("pod %s is %s, %q, %q; want Evicted, %q", victim.Name, victim.Status.Phase, victim.Status.Reason, victim.Status.Message, s.message)
			}
			if disrupted := condition(victim, v1.DisruptionTarget) != nil; disrupted != (s.hard != nil) {
				t.Errorf("pod %s has DisruptionTarget: %v", victim.Name, disrupted)
			}
			if e := awaitEvent(soon(t), t, c, victim, "Evicted"); e.Source.Component != "evictd" {
				t.Errorf("event of %s", e.Source.Component)
			}
			_, err := p.Await(soon(t), func(r evictd.Record) bool { return r.Msg == "pod finished" && r.String("uid") == string(victim.UID) })
			must(t, err)
			spared(t, c, calm, p)
			must(t, p.Stop())
			_, err = c.Kubectl(soon(t), "", "delete", "pod", app, "--wait")
			must(t, err)
		})
	}
}

// statfs is the filesystem of the kubelet's root directory.
func statfs(t *testing.T, c *cluster.Cluster) (s unix.Statfs_t) {
	t.Helper()
	must(t, unix.Statfs(c.KubeletRootDir, &s))
	return s
}
