package kubernetes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack/agent"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

const (
	fleetSize = 30
	// fleetNodes is the size of the cluster that figures are computed for.
	fleetNodes = 5000
	// leaseMargin bounds the delay of a kubelet's lease while a fleet evicts.
	leaseMargin = 50 * time.Millisecond
)

// auditPolicy records when requests arrive.
const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["ResponseStarted", "ResponseComplete", "Panic"], "rules": [{"level": "Metadata"}]}`

// A request is one of an evictd of the fleet.
type request struct {
	at   time.Time
	node string
	verb string
	what string // resource and subresource
	uri  string
}

// list reports whether the answer has all pods of the node.
func (r request) list() bool {
	return r.verb == "list" || strings.Contains(r.uri, "sendInitialEvents=true")
}

// inspects reports whether the inspection of the API server has sent it.
func (r request) inspects() bool {
	return r.what == "selfsubjectaccessreviews" || strings.Contains(r.uri, "dryRun=All")
}

// requests returns those of the fleet from a time on, from an audit log.
func requests(t *testing.T, log string, from time.Time) (all []request) {
	t.Helper()
	file, err := os.Open(log)
	must(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e struct {
			Verb, RequestURI, UserAgent string
			ObjectRef                   struct{ Resource, Subresource string }
			User                        struct{ Extra map[string][]string }
			RequestReceivedTimestamp    metav1.MicroTime
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil || !strings.HasPrefix(e.UserAgent, "evictd/") || e.RequestReceivedTimestamp.Time.Before(from) {
			continue
		}
		what := strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")
		r := request{at: e.RequestReceivedTimestamp.Time, verb: e.Verb, what: what, uri: e.RequestURI}
		if names := e.User.Extra["authentication.kubernetes.io/node-name"]; len(names) == 1 {
			r.node = names[0]
		}
		all = append(all, r)
	}
	return all
}

// within returns the largest number of nodes with a request that keep accepts within a time.
func within(all []request, d time.Duration, keep func(request) bool) (most int) {
	for i, first := range all {
		nodes := map[string]bool{}
		for _, r := range all[i:] {
			if r.at.Sub(first.at) < d && keep(r) {
				nodes[r.node] = true
			}
		}
		most = max(most, len(nodes))
	}
	return most
}

// busiest returns the largest number of requests of one node that keep accepts.
func busiest(all []request, keep func(request) bool) (most int) {
	of := map[string]int{}
	for _, r := range all {
		if keep(r) {
			of[r.node]++
			most = max(most, of[r.node])
		}
	}
	return most
}

func every(request) bool { return true }

// later returns all requests but the first of each node: a socket that listens before its API server serves holds those back.
func later(all []request) []request {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(all), func(r request) bool {
		was := seen[r.node]
		seen[r.node] = true
		return !was
	})
}

// Many evictds at one API server send few requests, and none in step: at their start, with a standing error of their
// nodes, and when the API server is back. While they evict, a kubelet's lease is not delayed.
func TestAFleetIsQuiet(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("30 evictds share the cores with the API server that is measured: part of make nightly, where nothing else runs")
	}
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.json"), filepath.Join(dir, "audit.log")
	must(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	c := start(t, cluster.Options{APIServer: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}})
	applyRights(t, c)
	_, err := c.Kubectl(soon(t), "", "delete", "clusterrolebinding", "evictd-node-conditions") // the inspection warns of that
	must(t, err)
	nodes := fleet(t, c)
	time.Sleep(5 * time.Second) // the API server learns of the roles

	began := time.Now()
	startFleet(t, c, nodes)
	time.Sleep(time.Until(began.Add(time.Minute + 5*time.Second)))
	all := requests(t, log, began)
	work := func(r request) bool { return !r.inspects() && !strings.HasPrefix(r.verb, "watch") }
	t.Logf("  start: in a minute %d requests, of one evictd at most %d beside watches and the inspection, %d of the inspection", len(all), busiest(all, work), busiest(all, request.inspects))
	kinds := map[string]int{}
	for _, r := range all {
		kinds[fmt.Sprintf("%s %s list=%t", r.verb, r.what, r.list())]++
	}
	t.Logf("  start: %v", kinds)
	if n := busiest(all, work); n > 4 {
		t.Errorf("%d requests of one evictd at its start, want 4 at most", n)
	}
	if n := within(all, time.Second, request.inspects); n > fleetSize/3 {
		t.Errorf("%d of %d evictds inspect within a second", n, fleetSize)
	}
	if n := busiest(all, request.inspects); n > 8 {
		t.Errorf("%d requests of one inspection, want 8 at most", n)
	}

	for _, outage := range []time.Duration{5 * time.Second, 30 * time.Second} {
		must(t, c.KillPart(soon(t), "kube-apiserver"))
		time.Sleep(outage)
		back := time.Now()
		must(t, c.StartPart(soon(t), "kube-apiserver"))
		time.Sleep(40 * time.Second)
		all := requests(t, log, back)
		first := within(all, time.Second, every)
		all = later(all)
		t.Logf("  API server away for %v: first requests of %d evictds within 1 s, then %d requests, %d lists; evictds with one within 100 ms %d, within 1 s %d, with a list within 1 s %d",
			outage, first, len(all), len(slices.DeleteFunc(slices.Clone(all), func(r request) bool { return !r.list() })),
			within(all, 100*time.Millisecond, every), within(all, time.Second, every), within(all, time.Second, request.list))
		if n := within(all, 100*time.Millisecond, every); n > fleetSize/5 {
			t.Errorf("%d of %d evictds in step after %v", n, fleetSize, outage)
		}
		if n := within(all, time.Second, every); n > fleetSize/2 {
			t.Errorf("%d of %d evictds within a second after %v", n, fleetSize, outage)
		}
	}

	calm := leases(t, c, nodes[0].Name, 5*time.Second, func() {})
	evicting := leases(t, c, nodes[0].Name, 0, func() { evictAtOnce(t, nodes, 10) })
	listing := leases(t, c, nodes[0].Name, 0, func() { listAtOnce(t, nodes, 50) })
	t.Logf("  a kubelet's lease, median and slowest: %s; while the fleet evicts 300 pods %s; while it lists 1500 times %s", calm, evicting, listing)
	if more := evicting.median - calm.median; more > leaseMargin {
		t.Errorf("a kubelet's lease takes %v longer while the fleet evicts, want %v at most", more, leaseMargin)
	}
	later := time.Since(began) - time.Minute
	again := busiest(requests(t, log, began.Add(time.Minute+5*time.Second)), request.inspects)
	t.Logf("  a standing error of the node and a warning: %d more requests of the inspection of one evictd in %v", again, later.Round(time.Second))
	if again > 0 {
		t.Error("a standing error of the node repeats the inspection of the API server, want it each hour")
	}
	perSecond := func(n int, d time.Duration) float64 { return float64(n) / fleetSize * fleetNodes / d.Seconds() }
	t.Logf("  for %d nodes: %.0f requests a second in the minute of a start", fleetNodes, perSecond(len(all), time.Minute))
}

// A member is a node of the fleet.
type member struct {
	*v1.Node
	pod        *v1.Pod
	kubeconfig string
	client     kubernetes.Interface // with evictd's account
}

// fleet makes nodes without a kubelet, each with a pod and a kubeconfig of evictd's account.
func fleet(t *testing.T, c *cluster.Cluster) (all []member) {
	t.Helper()
	for i := range fleetSize {
		name := fmt.Sprintf("fleet-%d", i)
		node, err := c.Client.CoreV1().Nodes().Create(soon(t), &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{NodeInfo: v1.NodeSystemInfo{KubeletVersion: "v1.37.2"}},
		}, metav1.CreateOptions{})
		must(t, err)
		pod, err := c.Client.CoreV1().Pods("default").Create(soon(t), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{
			NodeName: name, Tolerations: []v1.Toleration{{Operator: v1.TolerationOpExists}}, Containers: []v1.Container{{Name: "main", Image: "none"}},
		}}, metav1.CreateOptions{})
		must(t, err)
		m := member{Node: node, pod: pod, kubeconfig: tokenOf(t, c, name, cluster.ToNode(node))}
		config, err := clientcmd.BuildConfigFromFlags("", m.kubeconfig)
		must(t, err)
		config.QPS, config.UserAgent = -1, "fleet-burst"
		m.client, err = kubernetes.NewForConfig(config)
		must(t, err)
		all = append(all, m)
	}
	return all
}

// startFleet starts the evictds at once, each with an error of its node that stays: it has no plugin.
func startFleet(t *testing.T, c *cluster.Cluster, nodes []member) {
	t.Helper()
	binary, err := filepath.Abs("../../../bin/evictd")
	must(t, err)
	for _, n := range nodes {
		file, err := agent.Prepare(c.Stack, agent.Options{Config: map[string]any{
			"nodeName": n.Name, "mode": "kubernetes", "kubeconfig": n.kubeconfig, "dryRun": true, "podManifestDir": nil, "evictionHard": map[string]any{"memory.available": "10Mi"},
		}})
		must(t, err)
		p, err := evictd.Start(evictd.Options{Binary: binary, ConfigFile: file, Command: func(name string, args ...string) *exec.Cmd {
			return c.Command(context.WithoutCancel(t.Context()), name, args...)
		}})
		must(t, err)
		t.Cleanup(func() {
			p.Kill()
			if t.Failed() && n.Name == nodes[0].Name {
				t.Logf("log of an evictd:\n%s", p.LogText())
			}
		})
	}
}

// A duration is how long renewals of a lease take.
type duration struct{ median, slowest time.Duration }

func (d duration) String() string { return fmt.Sprintf("%v and %v", d.median, d.slowest) }

// leases renews the lease of a kubelet all the time while do runs, and for at least a time.
func leases(t *testing.T, c *cluster.Cluster, node string, least time.Duration, do func()) duration {
	t.Helper()
	config, err := c.Config(cluster.NodeUser(node))
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	renewals := client.CoordinationV1().Leases("kube-node-lease")
	_ = renewals.Delete(t.Context(), node, metav1.DeleteOptions{}) // of a former call
	lease, err := renewals.Create(soon(t), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &node}}, metav1.CreateOptions{})
	must(t, err)
	done := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(done)
		do()
	}()
	var took []time.Duration
	for running := true; running || time.Since(began) < least; {
		at := time.Now()
		lease.Spec.RenewTime = &metav1.MicroTime{Time: at}
		lease, err = renewals.Update(soon(t), lease, metav1.UpdateOptions{})
		must(t, err)
		took = append(took, time.Since(at))
		select {
		case <-done:
			running = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	slices.Sort(took)
	return duration{took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond)}
}

// evictAtOnce has each account evict n times in a dry run, and create an event each time.
func evictAtOnce(t *testing.T, nodes []member, n int) {
	together(t, nodes, n, func(ctx context.Context, m member, i int) error {
		const message = "The node was low on resource: memory. "
		at := time.Now().UTC().Add(time.Duration(i))
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": m.pod.UID, "annotations": map[string]string{"evictd.io/evicted": at.Format(time.RFC3339Nano)}},
			"status": map[string]any{"phase": "Failed", "reason": "Evicted", "message": message, "conditions": []any{map[string]any{
				"type": v1.DisruptionTarget, "status": "True", "reason": v1.PodReasonTerminationByKubelet, "message": message, "lastTransitionTime": metav1.NewTime(at),
			}}},
		})
		if err != nil {
			return err
		}
		_, err = m.client.CoreV1().Pods("default").Patch(ctx, m.pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		if err != nil {
			return fmt.Errorf("evict: %w", err)
		}
		_, err = m.client.CoreV1().Events("default").Create(ctx, &v1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s.%d", m.pod.Name, i)},
			InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: m.pod.Name, UID: m.pod.UID},
			Reason:         "Evicted", Message: message, Type: v1.EventTypeWarning, Count: 1,
			FirstTimestamp: metav1.NewTime(at), LastTimestamp: metav1.NewTime(at),
			Source: v1.EventSource{Component: "evictd", Host: m.Name}, ReportingController: "evictd", ReportingInstance: m.Name,
		}, metav1.CreateOptions{FieldManager: "evictd"})
		return err
	})
}

// listAtOnce has each account list its pods n times.
func listAtOnce(t *testing.T, nodes []member, n int) {
	together(t, nodes, n, func(ctx context.Context, m member, _ int) error {
		_, err := m.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + m.Name, ResourceVersion: "0"})
		return err
	})
}

// together calls do n times for each node at once.
func together(t *testing.T, nodes []member, n int, do func(context.Context, member, int) error) {
	var running sync.WaitGroup
	began := time.Now()
	for _, m := range nodes {
		for i := range n {
			running.Go(func() {
				if err := do(t.Context(), m, i); err != nil {
					t.Error(err)
				}
			})
		}
	}
	running.Wait()
	t.Logf("  %d times at once, done after %v", n*len(nodes), time.Since(began).Round(time.Millisecond))
}
