package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

// manyPods is more than a node has; it shows how the cost grows.
const manyPods = 5000

// fromSummary measures the calls of a pass with ranking to each plugin's process if the figures
// come from the kubelet's summary. Fetching and decoding it is a separate row, since the
// kubelet has its figures ready.
func fromSummary(ctx context.Context, b *bench) (_ *part, err error) {
	p := &part{
		Title:   "From the kubelet's summary, through each plugin's process (AutoMTLS, unix socket), µs",
		Columns: roundTripColumns,
		Notes: []string{
			"\"Observe a new summary\" is one HTTP request, and reading and decoding the answer; its peer is the decoding's size as plain memory.",
			"\"Measure and Rank\" finds the summary decoded, as in every pass after Observe. Its peer sorts the same pods in this process.",
		},
	}
	host, err := serveSummary(filepath.Join(b.dir, "summary"))
	if err != nil {
		return nil, err
	}
	defer host.Close()
	for _, plugin := range []struct {
		name   string
		signal eviction.Signal
	}{{"memory", eviction.MemoryAvailable}, {"disk", eviction.NodeFsAvailable}, {"pid", eviction.PIDAvailable}} {
		rows, err := summaryRows(ctx, b, host, plugin.name, plugin.signal)
		if err != nil {
			return nil, fmt.Errorf("%s plugin: %w", plugin.name, err)
		}
		p.Rows = append(p.Rows, rows...)
	}
	return p, nil
}

func summaryRows(ctx context.Context, b *bench, host *summaryHost, name string, signal eviction.Signal) (_ []row, err error) {
	proc, err := startPlugin(ctx, b.programs.plugin(name), b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proc.stop()) }()
	facts := eviction.NodeFacts{NodeName: "bench", RootDir: "/", SummarySocket: host.socket}
	if err := proc.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: facts}); err != nil {
		return nil, err
	}
	trip := summaryTrip{proc: proc, signal: signal}
	var rows []row
	for _, n := range append(slices.Clone(b.sizes), manyPods) {
		host.grow(n)
		trip.pods = podRows(n)
		for i := range trip.pods {
			trip.pods[i].Containers = nil // like the host for a ranking
		}
		observed, err := compare(ctx, b.roundBudget, trip.observe, host.copy)
		if err != nil {
			return nil, err
		}
		ranked, err := compare(ctx, b.roundBudget, trip.rank, trip.sort)
		if err != nil {
			return nil, err
		}
		rows = append(rows, observed.row(name+": Observe a new summary", n, "a copy of it"), ranked.row(name+": Measure and Rank", n, "the same sort in this process"))
	}
	return rows, nil
}

// A summaryTrip makes the calls of passes to one plugin.
type summaryTrip struct {
	proc   *process
	signal eviction.Signal
	pods   []eviction.Pod
	pass   uint64
	// last is the request of the last ranking.
	last eviction.RankRequest
}

// observe begins a new pass.
func (t *summaryTrip) observe(ctx context.Context) error {
	t.pass++
	reply, err := t.proc.Observer.Observe(ctx, eviction.ObserveRequest{PassView: eviction.PassView{Pass: t.pass, View: eviction.ViewBefore}, Signals: []eviction.Signal{t.signal}})
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	if len(reply.Observations) != 1 || reply.Observations[0].State != eviction.Observed {
		return fmt.Errorf("observe: got %+v, want one observation", reply.Observations)
	}
	return nil
}

// rank measures and ranks in the pass that observe began.
func (t *summaryTrip) rank(ctx context.Context) error {
	candidates := make([]eviction.Candidate, 0, len(t.pods))
	err := measureAll(ctx, t.proc.Measurer, eviction.MeasureRequest{
		PassView: eviction.PassView{Pass: t.pass, View: eviction.ViewBefore}, Detail: eviction.DetailPod, Signals: []eviction.Signal{t.signal}, Pods: t.pods,
	}, func(m eviction.Measurement) {
		candidates = append(candidates, eviction.Candidate{Pod: t.pods[len(candidates)], Measurement: m})
	})
	if err != nil {
		return err
	}
	t.last = eviction.RankRequest{
		Pass: t.pass, Signal: t.signal, Unit: eviction.UnitBytes, Threshold: eviction.Threshold{Amount: 1 << 30},
		Available: 1 << 29, Capacity: 1 << 33, Shortfall: 1 << 29, Hard: true, Candidates: candidates,
	}
	return rankAll(ctx, t.proc.Ranker, t.last)
}

func (t *summaryTrip) sort(context.Context) error { return sortAll(t.last) }

// A summaryHost serves the same summary for every pass, by the protocol of sdk/summary.
type summaryHost struct {
	*httptest.Server

	socket string

	mu   sync.Mutex
	json []byte
}

func serveSummary(socket string) (*summaryHost, error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	h := &summaryHost{socket: socket}
	h.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		w.Header().Set(summaryapi.HeaderLayout, "shared")
		w.Header().Set("Content-Length", fmt.Sprint(len(h.json)))
		_, _ = w.Write(h.json) // ignore a plugin that went away
	})}}
	h.Start()
	return h, nil
}

func (h *summaryHost) grow(pods int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.json = madeUpSummary(pods)
}

func (h *summaryHost) copy(context.Context) error {
	if c := append([]byte(nil), h.json...); len(c) == 0 {
		return errors.New("no summary")
	}
	return nil
}

// madeUpSummary returns a summary of the made-up pods, with everything that a kubelet writes.
func madeUpSummary(pods int) []byte {
	const at = `"time":"2026-03-01T12:00:09Z"`
	const cpu = `"cpu":{` + at + `,"usageNanoCores":1234567,"usageCoreNanoSeconds":98765432100,"psi":{"full":{"total":0,"avg10":0,"avg60":0.01,"avg300":0},"some":{"total":12,"avg10":0,"avg60":0,"avg300":1.5e-3}}}`
	memory := func(use int64) string {
		return fmt.Sprintf(`"memory":{%s,"availableBytes":%d,"usageBytes":%d,"workingSetBytes":%d,"rssBytes":%d,"pageFaults":4711,"majorPageFaults":3}`, at, 1<<33-use, use+4096, use, use-4096)
	}
	fs := func(used int64) string {
		return fmt.Sprintf(`%s,"availableBytes":64424509440,"capacityBytes":107374182400,"usedBytes":%d,"inodesFree":900000,"inodes":1000000,"inodesUsed":%d`, at, used, used>>12)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"node":{"nodeName":"bench",%s,%s,"fs":{%s},"runtime":{"imageFs":{%s}},"rlimit":{%s,"maxpid":32768,"curproc":2768}},"pods":[`, cpu, memory(3<<30), fs(1<<34), fs(1<<33), at)
	for i := range pods {
		if i > 0 {
			b.WriteByte(',')
		}
		used := int64(i * 7919 % 1009 << 14)
		fmt.Fprintf(&b, `{"podRef":{"name":%q,"namespace":%q,"uid":%q},"containers":[{"name":%q,%s,%s,"rootfs":{%s},"logs":{%s}}],%s,%s,"volume":[{%s,"name":"cache"}],"ephemeral-storage":{%s},"process_stats":{"process_count":%d}}`,
			podName(i), namespace, podUID(i), containerName, cpu, memory(used+4096), fs(used), fs(4096), cpu, memory(used+8192), fs(used/2), fs(2*used), i%40)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}
