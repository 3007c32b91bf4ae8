package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// memory is a Store in memory, whose writes fail or hang if they are to.
type memory struct {
	mu       sync.Mutex
	records  []*decision.Decision
	outcomes []*decision.Outcome
	fails    error
	former   *decision.Decision
	saved    []*decision.Decision
	hangs    chan struct{}
}

func (m *memory) Open() error {
	if m.hangs != nil {
		<-m.hangs
	}
	return m.fails
}

func (m *memory) Append(r *decision.Decision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails == nil {
		m.records = append(m.records, r)
	}
	return m.fails
}

func (m *memory) Missing(all []*decision.Decision) ([]*decision.Decision, error) { return all, m.fails }

func (m *memory) AppendOutcome(o *decision.Outcome) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outcomes = append(m.outcomes, o)
	return m.fails
}

func (m *memory) Configured() (*decision.Decision, error) { return m.former, nil }

func (m *memory) SaveConfigured(d *decision.Decision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saved = append(m.saved, d)
	return m.fails
}

func (m *memory) Prune() error { return nil }
func (m *memory) Close() error { return nil }

// counted is a keeper's count of kept and lost records.
type counted struct {
	mu         sync.Mutex
	kept, lost int
}

func (c *counted) count(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.lost++
	} else {
		c.kept++
	}
}

const gibibyte = 1 << 30

var hard = policy.Threshold{Signal: eviction.MemoryAvailable, Value: policy.Value{Quantity: resource.MustParse("1Gi")}}

// evicted returns a pass that evicts the second of two pods.
func evicted(now time.Time) loop.Conclusion {
	pod := func(name string, priority int32) pods.Pod {
		return pods.Pod{API: &v1.Pod{}, HasManifest: true, Row: eviction.Pod{UID: name, Namespace: "shop", Name: name, Priority: priority, MemoryRequestBytes: gibibyte}}
	}
	use := func(name string, value int64) eviction.Measurement {
		return eviction.Measurement{UID: name, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: eviction.MemoryAvailable, Value: value}}}
	}
	web, report := pod("web", 1000), pod("report", 0)
	seen := map[eviction.Signal]eviction.Observation{eviction.MemoryAvailable: {
		Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: gibibyte / 2, Capacity: 8 * gibibyte, Time: now,
	}}
	_, assessment := policy.Assess(policy.State{}, policy.Input{Now: now, Thresholds: []policy.Threshold{hard}, Observations: seen})
	v := victim.New(report, hard.Signal, 1, "The node was low on resource: memory. ", nil)
	v.Hard, v.Record, v.Promised = true, "r1", eviction.Some(3*gibibyte)
	d := decision.Decision{
		Version: decision.Version, Pass: 7, Trigger: "wake", Causes: "memcg", Time: now, Now: now,
		Thresholds: decision.Thresholds([]policy.Threshold{hard}, &assessment, now), Observations: decision.Observations(seen),
	}
	d.Act(hard)
	c := choose.Choice{
		Snapshot: pods.Snapshot{Pods: []pods.Pod{web, report, {Row: eviction.Pod{UID: "stray", Namespace: "shop", Name: "stray"}}}}, Candidates: []pods.Pod{web, report}, Ranker: "memory",
		Order:    []eviction.Ranked{{UID: "report"}, {UID: "web"}},
		Measured: map[string]eviction.Measurement{"web": use("web", 2*gibibyte), "report": use("report", 3*gibibyte)},
	}
	c.Enter(&d, hard.Signal)
	return loop.Conclusion{Decision: &d, Evicted: []victim.Victim{v}, Victims: []victim.Victim{v}}
}

// run gives passes to a keeper, and returns when all that comes of them was written.
func run(t *testing.T, m *memory, passes ...loop.Conclusion) *counted {
	return runWith(t, m, func(k *Keeper) {
		for _, p := range passes {
			k.Passed(p)
		}
	})
}

func runWith(t *testing.T, m *memory, give func(*Keeper)) *counted {
	t.Helper()
	var c counted
	k := New(Options{Store: m, Node: "node", Evictd: "test", Count: c.count, Log: slog.New(slog.DiscardHandler)})
	give(k)
	ctx, end := context.WithCancel(t.Context())
	end()
	k.Run(ctx)
	return &c
}

func TestAnEvictionIsRecordedWithAllThatItWasMadeFrom(t *testing.T) {
	var m memory
	if c := run(t, &m, evicted(time.Now())); len(m.records) != 1 || c.kept != 2 || c.lost != 0 {
		t.Fatalf("%d records, %+v", len(m.records), c)
	}
	text, err := json.Marshal(m.records[0])
	if err != nil {
		t.Fatal(err)
	}
	r, err := decision.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	web, report := r.Candidates[0], r.Candidates[1]
	switch {
	case r.ID != "r1" || r.Kind != decision.KindEviction || r.Victim.Pod != "shop/report" || *r.Victim.Promised != 3*gibibyte:
		t.Errorf("victim %+v of %s %s", r.Victim, r.Kind, r.ID)
	case !r.Thresholds[0].Acted || !r.Thresholds[0].Actionable || r.Thresholds[0].Value != "1Gi" || r.Observations[0].Available != gibibyte/2:
		t.Errorf("threshold %+v, %+v", r.Thresholds[0], r.Observations[0])
	case web.Pod != "shop/web" || web.Priority != 1000 || web.Usage != 2*gibibyte || report.MemoryRequest != gibibyte || len(r.Order) != 2 || r.Order[0] != 1:
		t.Errorf("candidates %+v in order %v", r.Candidates, r.Order)
	case len(r.Protected) != 1 || r.Protected[0].Rule != "without a manifest":
		t.Errorf("protected: %+v", r.Protected)
	case r.Trigger != "wake" || r.Causes != "memcg" || r.Ranker.Name != "memory" || r.Node != "node":
		t.Errorf("%+v", r)
	}
}

// The pass that finishes a kill of a former evictd was recorded as what had led to it.
func TestAResumedKillIsRecordedWithoutWhatThisEvictdSaw(t *testing.T) {
	p := evicted(time.Now())
	p.Evicted, p.Decision.Thresholds = nil, nil
	p.Decision.Reclaim = []decision.Reclaim{{Step: "image-gc"}}
	p.Victims[0].Resumed = true
	var m memory
	run(t, &m, p)
	if len(m.records) != 1 {
		t.Fatalf("%d records", len(m.records))
	}
	r := m.records[0]
	if r.Kind != decision.KindResumed || r.ID != "r1" || r.Victim.Pod != "shop/report" {
		t.Errorf("%+v", r)
	}
	if r.Trigger != "" || r.Pass != 0 || len(r.Reclaim) != 0 || len(r.Observations) != 0 || !r.Now.IsZero() {
		t.Errorf("has what is not of the decision: %+v", r)
	}
}

// What came back is the ledger's figure, as in the log and the metric, and was computed once more here.
func TestWhatFollowedIsKeptWhenTheMemoryIsBack(t *testing.T) {
	var m memory
	now := time.Now()
	first := evicted(now.Add(-time.Minute))
	v := first.Victims[0]
	v.State, v.Released, v.ReliefAt = victim.StateFinished, eviction.Some(5*gibibyte/2), v.EvictedAt.Add(time.Second)
	later := loop.Conclusion{Victims: []victim.Victim{v}, Decision: &decision.Decision{Pass: 8, Time: now.Add(2 * time.Second), Observations: []decision.Observation{
		{Signal: eviction.MemoryAvailable, State: decision.StateObserved, Available: 4 * gibibyte, Capacity: 8 * gibibyte},
	}}}
	run(t, &m, first, later)
	var all *decision.Outcome
	for _, o := range m.outcomes {
		all = o.With(all)
	}
	if all == nil || all.ID != "r1" || all.State != victim.StateFinished || *all.Released != 5*gibibyte/2 || all.ReliefMS <= 0 {
		t.Fatalf("outcomes %+v", all)
	}
	if s := all.After; s == nil || s.UntilMS <= 0 || s.Values()[len(s.Available)-1] != 4*gibibyte {
		t.Errorf("samples after the decision: %+v", s)
	}
}

func TestAPreemptionIsRecorded(t *testing.T) {
	var m memory
	d := decision.Decision{ID: "p1", Kind: decision.KindPreemption, Victim: &decision.Victim{Pod: "shop/web"}, Outcome: &decision.Outcome{ID: "p1", State: victim.StateFinished}}
	runWith(t, &m, func(k *Keeper) { k.Preempted(&d) })
	if len(m.records) != 1 || m.records[0].Node != "node" || m.records[0].Outcome.State != victim.StateFinished {
		t.Errorf("records %+v, outcomes %+v", m.records, m.outcomes)
	}
}

// Evictions of thousands of pods by others push out no record of evictd's.
func TestAFloodOfEvictionsByOthersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		var c counted
		var log bytes.Buffer
		k := New(Options{Store: &m, Node: "node", Count: c.count, Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, end := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { defer close(ran); k.Run(ctx) }()
		own := func(uid, _ string) bool { return uid == "own" }
		some := func(n int) (all []*decision.Decision) {
			for i := range n {
				all = append(all, &decision.Decision{ID: fmt.Sprint(i), Time: time.Now().Add(time.Duration(i) * time.Second), Victim: &decision.Victim{UID: "other"}})
			}
			return append(all, &decision.Decision{Victim: &decision.Victim{UID: "own"}})
		}
		k.Others(some(3000), own)
		k.Others(some(1), own)
		synctest.Wait()
		if len(m.records) != mostOthers || m.records[0].ID != "2999" || m.records[0].Node != "node" || c.kept != mostOthers {
			t.Errorf("%d records, the first %+v; want the newest %d", len(m.records), m.records[0], mostOthers)
		}
		time.Sleep(othersEvery)
		k.Others(some(1), own)
		synctest.Wait()
		if logged := log.String(); len(m.records) != mostOthers+1 || strings.Count(logged, "too many of them") != 1 || !strings.Contains(logged, "number=2951") {
			t.Errorf("%d records, %s", len(m.records), logged)
		}
		end()
		<-ran
	})
}

func TestAMissingVictimIsRecordedOnce(t *testing.T) {
	var m memory
	p := evicted(time.Now())
	p.Evicted, p.Victims, p.Decision.Reason = nil, nil, "2 critical or static"
	run(t, &m, p, p, p)
	if len(m.records) != 1 || m.records[0].Kind != decision.KindNone || m.records[0].Reason != p.Decision.Reason {
		t.Errorf("records %+v", m.records)
	}
}

// Two reasons that took turns were a record each second, and pushed the records of evictions out.
func TestReasonsThatAlternateAreOneEpisode(t *testing.T) {
	var m memory
	var passes []loop.Conclusion
	for i := range 20 {
		p := evicted(time.Now())
		p.Evicted, p.Victims, p.Decision.Reason = nil, nil, fmt.Sprintf("%d without a manifest", i%2+1)
		p.Waiting = []policy.Wait{{Signal: hard.Signal, For: policy.WaitForEnd, Victims: []string{fmt.Sprint("shop/", i%2)}}}
		passes = append(passes, p)
	}
	run(t, &m, passes...)
	counts := map[string]int{}
	for _, r := range m.records {
		counts[r.Kind]++
	}
	if counts[decision.KindNone] != 1 || counts[decision.KindWaiting] != 2 { // each wait is one of its own
		t.Errorf("records %v, want one without a pod and one of each wait", counts)
	}
	if e, of, now := (episodes{}), (episode{signal: hard.Signal, kind: decision.KindNone}), time.Now(); !e.isNew(of, now) ||
		e.isNew(of, now.Add(recordedFor-time.Second)) || !e.isNew(of, now.Add(recordedFor)) {
		t.Error("want an episode recorded again after ten minutes, and not before")
	}
}

func TestAGracePeriodThatBeginsAndAWaitAreRecorded(t *testing.T) {
	var m memory
	p := evicted(time.Now())
	soft := hard
	soft.GracePeriod = time.Minute
	p.Evicted, p.Victims = nil, nil
	p.Decision.Thresholds = decision.Thresholds([]policy.Threshold{soft}, &policy.Assessment{Observed: []policy.Observed{{Threshold: soft, FirstObservedAt: p.Decision.Now}}}, p.Decision.Now)
	p.Waiting = []policy.Wait{{Signal: soft.Signal, For: policy.WaitForEnd, Victims: []string{"shop/other"}}}
	run(t, &m, p)
	if len(m.records) != 2 || m.records[0].Kind != decision.KindGrace || m.records[1].Reason != "waits for the end of shop/other" {
		t.Errorf("records %+v", m.records)
	}
}

// After a reload that raised the threshold the record had it as if it had always been in force.
func TestARecordHasWhatChangedBefore(t *testing.T) {
	var m memory
	now := time.Now()
	before, changed, last := evicted(now.Add(-time.Minute)), evicted(now.Add(-30*time.Second)), evicted(now)
	before.Evicted, changed.Evicted = nil, nil
	low := hard
	low.Value.Quantity = resource.MustParse("500Mi")
	before.Decision.Config, changed.Decision.Config, last.Decision.Config = "a", "b", "b"
	before.Decision.Thresholds = decision.Thresholds([]policy.Threshold{low}, &policy.Assessment{}, now)
	changed.Waiting = []policy.Wait{{Signal: hard.Signal, For: policy.WaitForEnd, Victims: []string{"shop/other"}}, {Signal: eviction.PIDAvailable, For: policy.WaitForEnd, Victims: []string{"shop/another"}}}
	last.Evicted[0].EvictedAt, last.Evicted[0].Pod.API = now, &v1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "report-5f", Controller: new(true)}}}}
	runWith(t, &m, func(k *Keeper) {
		k.Mark(decision.MarkPlugin, "plugin memory ended")
		for _, p := range []loop.Conclusion{before, changed, last} {
			k.Passed(p)
		}
	})
	r := m.records[len(m.records)-1]
	if in := r.Thresholds[0].InForce; in == nil || !in.Equal(changed.Decision.Time.Round(0)) || last.Decision.Thresholds[0].InForce != nil {
		t.Errorf("in force from %v, want the time of the reload, in the record alone", in)
	}
	var texts []string
	for _, of := range r.Marks {
		texts = append(texts, of.What+": "+of.Text)
	}
	want := []string{"plugin: plugin memory ended", "start: evictd test started", "reload: memory.available<1Gi, before: memory.available<500Mi", "wait: waits for the end of shop/other"}
	if !slices.Equal(texts, want) {
		t.Fatalf("marks %q, want %q", texts, want)
	}
	reload, wait := r.Marks[2], r.Marks[3]
	if reload.MS != -30_000 || len(reload.Former) != 1 || reload.Former[0].Value != "500Mi" || wait.MS != -30_000 || wait.UntilMS != 0 {
		t.Errorf("%+v %+v", reload, wait)
	}
	if r.Victim.Owner != "ReplicaSet/report-5f" || r.Victim.Used == nil || *r.Victim.Used != 3*gibibyte {
		t.Errorf("victim %+v", r.Victim)
	}
}

// An evictd that was restarted with a higher threshold evicted a second later for what a pod, or evictd itself, had
// taken since: the former threshold was forgotten.
func TestARestartSaysWhichThresholdsItChanges(t *testing.T) {
	now := time.Now()
	low := hard
	low.Value.Quantity = resource.MustParse("500Mi")
	former := &decision.Decision{Config: "a", Thresholds: decision.Thresholds([]policy.Threshold{low}, &policy.Assessment{}, now)}
	for name, c := range map[string]struct {
		former *decision.Decision
		config string
		mark   string
		saved  int
	}{
		"another threshold":  {former, "b", "restart: memory.available<1Gi, before: memory.available<500Mi", 1},
		"the same":           {former, "a", "", 0},
		"none that is known": {nil, "b", "", 1},
	} {
		m := memory{former: c.former}
		pass := evicted(now)
		pass.Decision.Config = c.config
		pass.Decision.Observations[0].Available = gibibyte / 4
		run(t, &m, pass)
		r, mark := m.records[0], ""
		for _, of := range r.Marks {
			if len(of.Former) > 0 {
				mark = of.Text
			}
		}
		if inForce := r.Thresholds[0].InForce; mark != c.mark || (inForce != nil) != (c.mark != "") || len(m.saved) != c.saved {
			t.Errorf("%s: mark %q, in force from %v, saved %d times, want %q", name, mark, inForce, len(m.saved), c.mark)
		}
		if r.Growth != nil {
			t.Errorf("%s: growth %+v just after the start", name, r.Growth)
		}
	}
}

func TestRecordsThatCannotBeWrittenAreCounted(t *testing.T) {
	m := memory{fails: errors.New("no space left on device")}
	if c := run(t, &m, evicted(time.Now())); c.lost != 2 || c.kept != 0 {
		t.Errorf("%+v", c)
	}
}

// Whatever the disk does, who tells of a pass does not wait, and the log says what is lost.
func TestADiskThatHangsDelaysNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memory{hangs: make(chan struct{})}
		var c counted
		var log bytes.Buffer // of one that tells at a time
		k := New(Options{Store: &m, Count: c.count, Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, end := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { defer close(ran); k.Run(ctx) }()
		for range 500 {
			k.Passed(evicted(time.Now()))
			synctest.Wait()
		}
		if reported := strings.Count(log.String(), "decision record lost"); reported != 1 {
			t.Errorf("told %d times of records that are lost, want once:\n%s", reported, log.String())
		}
		end()
		<-ran
		if c.lost < 500 { // those that still waited too
			t.Errorf("%d records were lost by the count, want 500", c.lost)
		}
		close(m.hangs)
		synctest.Wait()
	})
}

func TestSignalsAreKeptForTenMinutes(t *testing.T) {
	s, start := &series{rings: map[eviction.Signal]*ring{}}, time.Unix(1_000_000, 0)
	for i := range 700 {
		if i != 300 { // a second without a sample
			s.add(start.Add(time.Duration(i)*time.Second), eviction.Observation{Signal: eviction.PIDAvailable, State: eviction.Observed, Available: int64(i)})
		}
	}
	got := s.before(start.Add(700*time.Second), eviction.PIDAvailable)[0]
	values := got.Values()
	if len(values) != 600 || values[599] != 699 || values[0] != 100 || values[200] != 299 || got.UntilMS != -1000 {
		t.Errorf("%d samples until %v: %v", len(values), got.UntilMS, values)
	}
	if !slices.Equal(got.Repeated, []int{200}) {
		t.Errorf("seconds without a sample: %v", got.Repeated)
	}
	s.add(start.Add(700*time.Second), eviction.Observation{Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: 1000<<20 + 1, Capacity: 24 << 30})
	if coarse := s.before(start.Add(700*time.Second), eviction.PIDAvailable)[0]; coarse.Unit != 8<<20 || coarse.Values()[0] != 1000<<20 {
		t.Errorf("of 24 GiB: %+v, want steps of 8 MiB", coarse)
	}
	if old := s.before(start.Add(2000*time.Second), ""); old != nil {
		t.Errorf("signals of long ago: %v", old)
	}
}
