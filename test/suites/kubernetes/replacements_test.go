package kubernetes_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// pressured are pods of 600 MiB on a node whose pods may use 1 GiB, or of 400 MiB on a disk that may take 600. Each fills its
// memory, or its volume, at once, also as a replacement.
type pressured struct {
	name, manifest string
	// nodes is the number of nodes that take pods.
	nodes      int
	disk, gate bool
	// headroom: evictd has the signal evictd.io/memory.headroom too.
	headroom bool
}

// pressuredPod is the spec of such a pod.
func pressuredPod(mib int) string {
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, containers: [
      {name: main, image: %s, imagePullPolicy: Never, resources: {requests: {memory: 64Mi}}, command: [/bin/hog, --mib, "%d", --exit, "143"]}]}`, hog.Image, mib)
}

// fillingPod is the spec of a pod that writes 400 MiB to its volume.
func fillingPod() string {
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, volumes: [{name: data, emptyDir: {}}], containers: [
      {name: main, image: %s, imagePullPolicy: Never, resources: {requests: {memory: 16Mi}}, volumeMounts: [{name: data, mountPath: /data}],
       command: [sh, -c, "dd if=/dev/zero of=/data/file bs=1M count=400 2>/dev/null; exec sleep 100000"]}]}`, stack.PodImage)
}

// endingGrows is the spec of a pod that fills its volume above the limit, and takes 512 MiB once it gets SIGTERM.
func endingGrows() string {
	return fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, volumes: [{name: data, emptyDir: {sizeLimit: 1Mi}}], containers: [
      {name: main, image: %s, imagePullPolicy: Never, resources: {requests: {memory: 16Mi}}, volumeMounts: [{name: data, mountPath: /data}],
       command: [sh, -c, "trap 'exec dd if=/dev/zero of=/dev/null bs=512M' TERM; sleep 5; dd if=/dev/zero of=/data/file bs=1M count=3 2>/dev/null; while :; do sleep 1; done"]}]}`, stack.PodImage)
}

func pressuredWorlds() []pressured {
	two := func(text string) string { return strings.Replace(text, "replicas: 1", "replicas: 2", 1) }
	daemons := strings.Replace(controller("DaemonSet", "hog", pressuredPod(1200)), "  replicas: 1\n", "", 1)
	job := fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: hog}
spec:
  parallelism: 2
  completions: 2
  backoffLimit: 6
  template:
    metadata: {labels: {app: hog}}
    spec: %s
`, with(pressuredPod(600), "restartPolicy: Never"))
	bare := barePod("hog", pressuredPod(600)) + "---" + strings.Replace(barePod("hog", pressuredPod(600)), "{name: hog,", "{name: hog-2,", 1)
	growing := barePod("hog", endingGrows())
	for i := range 3 {
		growing += "---" + strings.Replace(barePod("hog", pressuredPod(200)), "{name: hog,", fmt.Sprintf("{name: innocent-%d,", i), 1)
	}
	return []pressured{
		{name: "Deployment of 2", manifest: two(deployment("hog", pressuredPod(600))), nodes: 1, gate: true},
		{name: "DaemonSet", manifest: daemons, nodes: 1},
		{name: "StatefulSet of 2", manifest: two(controller("StatefulSet", "hog", pressuredPod(600))), nodes: 1},
		{name: "Job of 2", manifest: job, nodes: 1},
		{name: "2 bare pods", manifest: bare, nodes: 1},
		{name: "2 Deployments", manifest: deployment("hog", pressuredPod(600)) + "---" + strings.ReplaceAll(deployment("hog-2", pressuredPod(600)), "{app: hog-2}", "{app: hog}"), nodes: 1},
		{name: "Deployment of 2, two nodes", manifest: two(deployment("hog", pressuredPod(600))), nodes: 2},
		{name: "Deployment of 2, nodefs", manifest: two(deployment("hog", fillingPod())), nodes: 1, disk: true},
		{name: "DaemonSet that tolerates all", manifest: strings.ReplaceAll(daemons, "{hostNetwork: true,", "{hostNetwork: true, tolerations: [{operator: Exists}],"), nodes: 1},
		{name: "pod over its volume's limit that grows as it ends", manifest: growing, nodes: 1},
		{name: "2 bare pods, headroom", manifest: bare, nodes: 1, headroom: true},
	}
}

// Beside an unchanged kubelet evictd costs no more pods than the kubelet alone, in any half minute, whatever comes back, and
// its first victim is not later.
func TestNoMoreEvictionsThanByTheKubeletAlone(t *testing.T) {
	span, nightly := time.Minute, os.Getenv("EVICTD_NIGHTLY") != ""
	if nightly {
		span = time.Duration(number(t, "EVICTD_MINUTES", 3)) * time.Minute
	}
	kubelet := narrow(t)
	delete(kubelet, "evictionPressureTransitionPeriod") // 5 minutes
	memory := kubelet["evictionHard"]
	c := start(t, withDisks(kubelet))
	disk := cluster.CalmThresholds()
	disk["nodefs.available"] = strconv.FormatUint(statfs(t, c).Bavail*uint64(statfs(t, c).Bsize)-600<<20, 10)
	must(t, hog.WarmUp(soon(t), c.Stack, c.Hog, 1200))
	rights := account(t, c)
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "world\tby\tfirst\tin each half minute\tsum")
	for _, w := range pressuredWorlds() {
		if !w.gate && !nightly {
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			kubelet["evictionHard"] = memory
			hard := map[string]any{"memory.available": memory.(map[string]any)["memory.available"]}
			if w.disk {
				kubelet["evictionHard"] = disk
				hard = map[string]any{"nodefs.available": disk["nodefs.available"]}
			}
			must(t, c.ConfigureKubelet(soon(t), kubelet))
			alone := w.play(t, c, span)
			leaveToEvictd(t, c, kubelet)
			var others []string
			if w.headroom {
				hard["evictd.io/memory.headroom"] = "10%"
				program, err := filepath.Abs("../../../bin/evictd")
				must(t, err)
				others = []string{filepath.Join(t.TempDir(), "pressure")}
				must(t, os.Symlink(program, others[0]))
			}
			p := beside(t, c, rights, map[string]any{"evictionHard": hard, "nodeConditions": "taints", "evictionPressureTransitionPeriod": "5m"}, others...)
			both := w.play(t, c, span)
			must(t, p.Stop())
			untaint(t, c)
			for _, of := range []struct {
				by string
				v  victims
			}{{"kubelet", alone}, {"evictd", both}} {
				fmt.Fprintf(table, "%s\t%s\t%.1f s\t%v\t%d\n", w.name, of.by, of.v.first.Seconds(), of.v.halves, of.v.sum())
			}
			if alone.sum() == 0 {
				t.Error("the kubelet takes none: nothing is compared")
			}
			latest := alone.first
			if w.disk {
				latest += looks // either looks each 10 s, at some moment of them
			}
			if both.first > latest {
				t.Errorf("evictd's first victim goes after %v, the kubelet's after %v", both.first, alone.first)
			}
			if both.sum() > alone.sum() {
				t.Errorf("evictd takes %d pods, the kubelet alone %d", both.sum(), alone.sum())
			}
			for i := range both.halves {
				// The kubelet's first victim may be in the half minute after evictd's.
				if before := sumOf(alone.halves[:i+1]); sumOf(both.halves[:i+1]) > max(before, 1) {
					t.Errorf("evictd takes %v in half minutes, the kubelet alone %v", both.halves, alone.halves)
				}
			}
		})
	}
	_ = table.Flush() // into memory
	t.Logf("  evictions in %v\n%s", span, out.String())
}

// victims are the evictions since the pods' memory was too much.
type victims struct {
	first  time.Duration
	halves []int
}

func (v victims) sum() int { return sumOf(v.halves) }

func sumOf(counts []int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// play makes the pods, counts who is evicted for so long, and removes all of them.
func (w pressured) play(t *testing.T, c *cluster.Cluster, span time.Duration) victims {
	t.Helper()
	pods := begin(t, c)
	must(t, c.Apply(soon(t), w.manifest))
	v := victims{first: span, halves: make([]int, span/(30*time.Second))}
	first := pods.await(t, "hog", "runs", func(l life) bool {
		return l.Pod.Status.Phase == v1.PodRunning || condition(l.Pod, v1.DisruptionTarget) != nil
	})
	defer func() {
		_, err := c.Kubectl(soon(t), w.manifest, "delete", "--wait", "-f", "-")
		must(t, err)
		_, err = c.Kubectl(soon(t), "", "delete", "pods", "--wait", "--force", "-l", "app=hog")
		must(t, err)
	}()
	defer hollowNodes(t, c, w.nodes-1)() // for replacements
	must(t, stack.Pause(t.Context(), span))
	lives, _ := pods.all("hog")
	slices.SortFunc(lives, func(a, b life) int { return cmp.Compare(a.FailedAt, b.FailedAt) })
	for _, l := range lives {
		since := time.Duration(l.FailedAt - first.SeenAt)
		// A kubelet sets no condition on a pod that is over a limit.
		if condition(l.Pod, v1.DisruptionTarget) == nil && l.Pod.Status.Reason != "Evicted" || l.FailedAt == 0 || since >= span {
			continue
		}
		v.first = min(v.first, since)
		v.halves[since/(30*time.Second)]++
	}
	return v
}

// untaint removes what evictd has written to the node.
func untaint(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	_, err := c.Kubectl(soon(t), "", "patch", "node", c.Node, "-p", `{"spec":{"taints":null}}`)
	must(t, err)
}

// hollowNodes makes nodes that take pods and run none, until stop.
func hollowNodes(t *testing.T, c *cluster.Cluster, count int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var names []string
	for i := range count {
		names = append(names, fmt.Sprint("hollow-", i))
		must(t, c.Apply(soon(t), fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata: {name: hollow-%d}\n", i)))
	}
	beat := func() {
		for _, name := range names {
			now := metav1.Now().UTC().Format(time.RFC3339)
			_, _ = c.Kubectl(ctx, "", "patch", "node", name, "--subresource=status", "-p", fmt.Sprintf( // again in 5 s
				`{"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"},"capacity":{"cpu":"4","memory":"8Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`, now, now))
		}
	}
	beat()
	go func() {
		defer close(ended)
		for stack.Pause(ctx, 5*time.Second) == nil {
			beat()
		}
	}()
	return func() {
		cancel()
		<-ended
		for _, name := range names {
			_, err := c.Kubectl(soon(t), "", "delete", "node", name)
			must(t, err)
		}
	}
}
