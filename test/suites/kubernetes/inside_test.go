package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack/agent"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
	"github.com/evictd/evictd/test/suites/kubernetes/record"
)

// requireInside skips the test where the kubelet with evictd inside was not built, and returns its path.
func requireInside(t *testing.T) string {
	t.Helper()
	require(t)
	path := os.Getenv("EVICTD_KUBELET")
	if path == "" {
		t.Skip("needs the kubelet with evictd inside: run make kubelet-e2e")
	}
	path, err := filepath.Abs(path)
	must(t, err)
	return path
}

// run has another kubelet run from now on, with keys of its configuration. The pods go on.
func run(t *testing.T, c *cluster.Cluster, program cluster.KubeletProgram, keys map[string]any) {
	t.Helper()
	c.Program = program
	must(t, c.ConfigureKubelet(soon(t), keys))
	_, err := c.AwaitNode(soon(t), func(n *v1.Node) bool {
		return cluster.NodeCondition(n, v1.NodeReady) == v1.ConditionTrue && len(n.Spec.Taints) == 0
	})
	must(t, err)
}

// inside is the kubelet with evictd inside, with plugins in its plugin directory.
func inside(t *testing.T, c *cluster.Cluster, plugins ...string) cluster.KubeletProgram {
	t.Helper()
	file, err := agent.Prepare(c.Stack, agent.Options{Plugins: plugins, Config: map[string]any{"cgroupRoot": nil, "podManifestDir": nil}})
	must(t, err)
	return cluster.KubeletProgram{Path: requireInside(t), Env: []string{"EVICTD=on", "EVICTD_CONFIG=" + file}}
}

// requireNightly is requireInside for what is part of the nightly run only.
func requireNightly(t *testing.T) {
	t.Helper()
	requireInside(t)
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("part of make nightly: EVICTD_NIGHTLY=1 make kubelet-e2e")
	}
}

// asTheKubelet has something happen by the unmodified kubelet and then by the one with evictd inside,
// and fails the test where what the API shows of it, or the metrics of both, differ.
func asTheKubelet(t *testing.T, c *cluster.Cluster, keys map[string]any, allowed []record.Allowed, happens func(by string) map[string]record.Fields) {
	t.Helper()
	run(t, c, cluster.KubeletProgram{}, keys)
	byKubelet := happens("unmodified")
	kubelets := countsOfKubelet(t, c)
	run(t, c, inside(t, c), keys)
	byEvictd := happens("inside")
	evictds := countsOfKubelet(t, c)
	for _, what := range slices.Sorted(maps.Keys(byKubelet)) {
		t.Logf("  %s:", what)
		alike(t, byKubelet[what], byEvictd[what], allowed)
	}
	sameCounts(t, kubelets, evictds)
	for _, line := range decisions(t, c) {
		t.Logf("  evictd evicted %s", line)
	}
}

// By a kubelet with evictd inside each hog that crosses its threshold is evicted, and nobody
// else, soon after the kernel has reported the crossing (EVICTD_EVICTIONS). What the API and
// the kubelet's metrics show of one is what the unmodified kubelet leaves, which is measured, too.
func TestInsideAKubeletHogsAreEvicted(t *testing.T) {
	requireInside(t)
	times := number(t, "EVICTD_EVICTIONS", 10)
	polls := narrow(t)
	notified := maps.Clone(polls)
	notified["kernelMemcgNotification"] = true
	c := start(t, cluster.Options{Kubelet: polls})
	must(t, hog.WarmUp(soon(t), c.Stack, c.Hog, rowMiB))
	r := newRow(t, c)
	of := reactions{}

	byKubelet := evictsAHog(t, c, r.calm, "first")
	kubelets := countsOfKubelet(t, c)
	of.measure(t, c, r, "unmodified", max(2, times/5))
	run(t, c, cluster.KubeletProgram{}, notified)
	of.measure(t, c, r, "unmodified, notified", max(2, times/5))

	run(t, c, inside(t, c), notified)
	// A notified kubelet of v1.36 has been seen to take others with a hog.
	r.calm = awaitAvailable(soon(t), t, c, "calm")
	byEvictd := evictsAHog(t, c, r.calm, "second")
	evictds := countsOfKubelet(t, c)
	before, already := r.evictedBy(t, c), len(r.victims)
	of.measure(t, c, r, "evictd inside, notified", times)
	t.Logf("  threshold crossed -> SIGTERM at the hog, ms\n%s", of.table("unmodified", "unmodified, notified", "evictd inside, notified"))
	of.write(t)

	for _, victim := range r.victims[already:] {
		l := r.pods.await(t, "hog", "was evicted", is(victim, func(l life) bool { return endedWithReason(l.Pod) }))
		evicted(t, l.Pod)
		if len(l.Lost) > 0 {
			t.Errorf("pod %s has lost %v", l.Pod.Name, l.Lost)
		}
	}
	if got := len(r.evictedBy(t, c)) - len(before); got != times {
		t.Errorf("%d pods were evicted, want the %d hogs", got, times)
	}
	unharmed(t, c, r.calm)
	if got := len(decisions(t, c)); got != times+1 {
		t.Errorf("evictd evicted %d pods, want %d", got, times+1)
	}
	if p50 := median(of["evictd inside, notified"]); p50 > 2000 {
		t.Errorf("p50 of evictd inside is %.0f ms, want less than 2 s", p50)
	}
	alike(t, byKubelet, byEvictd, insideBut)
	sameCounts(t, kubelets, evictds)
}

// insideBut are the ways in which an eviction by evictd inside a kubelet may differ from the kubelet's own, and
// preemptedBut those of a preemption.
var (
	insideBut = append([]record.Allowed{
		{Path: "events[Evicted].metadata.annotations.evictd.io/why", Left: "(none)", Why: "why it went, for its owner"},
		{Path: "events[Evicted].metadata.annotations.evictd.io/record", Left: "(none)", Why: "which record of a decision is the eviction's"},
	}, preemptedBut...)
	preemptedBut = append([]record.Allowed{
		{Path: exitCode, Sometimes: true, Why: slowToEnd},
		{Path: "events[FailedScheduling].*", Sometimes: true, Why: notYet},
		{Path: "events[FailedScheduling].*.*", Sometimes: true, Why: notYet},
	}, byChance...)
)

const notYet = "the node may not take pods for a moment after a kubelet has started"

// alike fails the test unless two records are, but for what may differ, and prints what does.
func alike(t *testing.T, byKubelet, byEvictd record.Fields, allowed []record.Allowed) {
	t.Helper()
	if lostIn(byKubelet) || lostIn(byEvictd) {
		allowed = slices.Concat(allowed, losesContainers)
	}
	compare(t, byKubelet, byEvictd, allowed)
	all, _ := record.Compare(byKubelet, byEvictd, nil)
	var paths []string
	for _, d := range all {
		paths = append(paths, d.Path)
	}
	t.Logf("  %d of them differ, as they may: %s", len(paths), strings.Join(paths, ", "))
}

// reactions are the milliseconds from crossings to SIGTERMs, by who evicted.
type reactions map[string][]float64

// measure evicts so many hogs of a Deployment.
func (of reactions) measure(t *testing.T, c *cluster.Cluster, r *row, by string, times int) {
	t.Helper()
	t.Logf("  by %s:", by)
	r.add(t, c, deployment)
	for range times {
		if took, ok := r.evict(t); ok {
			of[by] = append(of[by], took)
		}
	}
	_, err := c.Kubectl(soon(t), "", "delete", "deployment", "hog", "--cascade=foreground", "--wait")
	must(t, err)
}

func (of reactions) table(by ...string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "by\tmeasured\tp50\tmax\teach\t")
	for _, by := range by {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.1f\t\n", by, len(of[by]), median(of[by]), quantile(of[by], 1), of[by])
	}
	_ = w.Flush() // into memory
	return out.String()
}

// write writes the figures for the document of make bench.
func (of reactions) write(t *testing.T) {
	t.Helper()
	var rows []any
	for _, by := range slices.Sorted(maps.Keys(of)) {
		values := map[string]any{"p50_ms": median(of[by]), "max_ms": quantile(of[by], 1), "evictions": len(of[by])}
		rows = append(rows, map[string]any{"name": by, "values": values})
	}
	text, err := json.Marshal(map[string]any{"title": "A kubelet in a cluster: from a crossing to SIGTERM at the process that grows, ms", "rows": rows})
	must(t, err)
	must(t, os.MkdirAll("../../../bin/test", 0o755))
	must(t, os.WriteFile("../../../bin/test/kubelet.json", text, 0o644))
}

// decision is a line of the kubelet's log in which evictd says whom it evicts.
var decision = regexp.MustCompile(`"evicting pod" .*\bpod="?([^" ]+)`)

// decisions are the pods that evictd inside the kubelet has evicted, in order.
func decisions(t *testing.T, c *cluster.Cluster) (pods []string) {
	t.Helper()
	raw, err := os.ReadFile(c.Log("kubelet"))
	must(t, err)
	for line := range strings.SplitSeq(string(raw), "\n") {
		if m := decision.FindStringSubmatch(line); m != nil && strings.Contains(line, `logger="evictd`) {
			pods = append(pods, m[1])
		}
	}
	return pods
}

// counted are the series of the kubelet's metrics that have to do with evictions and preemptions.
var counted = regexp.MustCompile(`^((?:# (?:HELP|TYPE) )?kubelet_(?:evictions|eviction_stats_age_seconds\w*|preemptions)(?:\{.*\})?) (.*)$`)

// countsOfKubelet are those series of the kubelet that runs, with their values, and without those that
// are of how long something took.
func countsOfKubelet(t *testing.T, c *cluster.Cluster) map[string]string {
	t.Helper()
	page, err := c.Kubelet.Ask(soon(t), "/metrics")
	must(t, err)
	counts := map[string]string{}
	for line := range strings.SplitSeq(string(page), "\n") {
		m := counted.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		counts[m[1]] = m[2]
		if strings.Contains(m[1], "_bucket") || strings.Contains(m[1], "_sum") {
			counts[m[1]] = "some"
		}
	}
	return counts
}

// sameCounts fails the test unless both kubelets have the same series with the same counts, and some.
func sameCounts(t *testing.T, kubelets, evictds map[string]string) {
	t.Helper()
	all := maps.Clone(kubelets)
	maps.Copy(all, evictds)
	series := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if kubelets[name] != evictds[name] {
			t.Errorf("metric %s: the unmodified kubelet has %q, that with evictd %q", name, kubelets[name], evictds[name])
		}
		if evictds[name] == "some" || strings.HasPrefix(name, "#") {
			continue
		}
		series++
		t.Logf("  %s %s", name, evictds[name])
	}
	if series == 0 {
		t.Error("no series of evictions or preemptions")
	}
	t.Logf("  %d lines of metrics compared", len(all))
}
