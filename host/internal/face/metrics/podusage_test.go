package metrics

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// uses yields pods of namespace shop with what they use, the pairs of name and use.
func uses(pods ...any) iter.Seq2[*eviction.Pod, int64] {
	return func(yield func(*eviction.Pod, int64) bool) {
		for i := 0; i < len(pods); i += 2 {
			if !yield(&eviction.Pod{Namespace: "shop", Name: pods[i].(string)}, int64(pods[i+1].(int))) {
				return
			}
		}
	}
}

// shown returns the series of the pods, without the metric's name.
func shown(t *testing.T, m *Metrics) (series []string) {
	t.Helper()
	for line := range strings.Lines(scrape(t, m)) {
		if rest, is := strings.CutPrefix(line, "evictd_pod_usage"); is {
			series = append(series, strings.NewReplacer(`namespace="shop",`, "", "\n", "").Replace(rest))
		}
	}
	return series
}

func TestPodsThatUseMostAreShown(t *testing.T) {
	const disk = eviction.NodeFsAvailable
	start := time.Now()
	later := start.Add(20 * time.Second)
	for claim, c := range map[string]struct {
		top  int
		does func(m *Metrics)
		at   time.Duration
		want []string
	}{
		"none while it is off": {0, func(m *Metrics) { m.Pods.Record(disk, false, uses("a", 1), later) }, 0, nil},
		"the largest ones": {
			2, func(m *Metrics) { m.Pods.Record(disk, false, uses("c", 30, "a", 10, "d", 40, "b", 20), later) }, 0,
			[]string{`{pod="c",signal="nodefs.available"} 30`, `{pod="d",signal="nodefs.available"} 40`},
		},
		"each signal has its own": {
			1, func(m *Metrics) {
				m.Pods.Record(disk, false, uses("a", 1, "b", 2), later)
				m.Pods.Record("acme.example/spare", false, uses("a", 2, "b", 1), later)
			}, 0, []string{`{pod="a",signal="acme.example/spare"} 2`, `{pod="b",signal="nodefs.available"} 2`},
		},
		"until they are too old": {2, func(m *Metrics) { m.Pods.Record(disk, false, uses("a", 1), later) }, 21 * time.Second, nil},
		"the last ones": {2, func(m *Metrics) {
			m.Pods.Record(disk, false, uses("a", 1), later)
			m.Pods.Record(disk, false, uses("b", 2), later)
		}, 0, []string{`{pod="b",signal="nodefs.available"} 2`}},
		"not of a signal that ends": {2, func(m *Metrics) { m.Pods.Record(disk, true, uses("a", 1), later); m.SignalGone(disk) }, 0, nil},
		"not after they are off":    {2, func(m *Metrics) { m.Pods.Record(disk, true, uses("a", 1), later); m.Pods.Show(0); m.Pods.Show(2) }, 0, nil},
		"a ranking before limits, which not all pods have": {
			2, func(m *Metrics) {
				m.Pods.Record(disk, false, uses("a", 1), later)
				m.Pods.Record(disk, true, uses("b", 2), later.Add(time.Minute))
			}, 0, []string{`{pod="a",signal="nodefs.available"} 1`},
		},
		"limits after the ranking is too old": {
			2, func(m *Metrics) {
				m.Pods.Record(disk, false, uses("a", 1), later)
				m.Pods.Record(disk, true, uses("b", 2), later.Add(time.Minute))
			}, 21 * time.Second, []string{`{pod="b",signal="nodefs.available"} 2`},
		},
		"one of two pods of a name": {
			2, func(m *Metrics) { m.Pods.Record(disk, false, uses("web", 5, "db", 3, "web", 9, "web", 1), later) }, 0,
			[]string{`{pod="db",signal="nodefs.available"} 3`, `{pod="web",signal="nodefs.available"} 9`},
		},
		"names that are no text":           {1, func(m *Metrics) { m.Pods.Record(disk, false, uses("a\xff", 1), later) }, 0, []string{`{pod="a?",signal="nodefs.available"} 1`}},
		"none of a signal beyond the 64th": {1, func(m *Metrics) { flood(m, later) }, 0, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			m := New("v1", "abc")
			m.Pods.now = func() time.Time { return start.Add(c.at) }
			m.Pods.Show(c.top)
			c.does(m)
			if diff := cmp.Diff(c.want, shown(t, m)); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
		})
	}
}

func flood(m *Metrics, until time.Time) {
	for i := range maxNames {
		m.Observed(eviction.Signal(fmt.Sprintf("acme.example/n%d", i)), 1, 1)
	}
	m.Pods.Record(eviction.NodeFsAvailable, false, uses("a", 1), until)
}

func TestFiveThousandPodsAreTwentySeriesOfEachSignal(t *testing.T) {
	m := New("v1", "abc")
	m.Pods.Show(20)
	var all []any
	for i := range 5000 {
		all = append(all, fmt.Sprintf("pod-%d", i), (i*2654435761)%5000) // each number once, in disorder
	}
	for _, s := range []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.PIDAvailable} {
		m.Pods.Record(s, false, uses(all...), time.Now().Add(time.Hour))
	}
	got := shown(t, m)
	if len(got) != 3*20 {
		t.Errorf("%d series, want 20 of each of 3 signals", len(got))
	}
	for n := 4980; n < 5000; n++ {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasSuffix(s, fmt.Sprintf(" %d", n)) }) {
			t.Errorf("the pod that uses %d is missing", n)
		}
	}
}

// BenchmarkPodUsage prints what the metric costs a pass that ranks 110 pods, as a share of a ranking.
func BenchmarkPodUsage(b *testing.B) {
	rows := make([]eviction.Candidate, 110)
	var all []any
	for i := range rows {
		use := (i * 7919) % 1000
		rows[i].Pod.Name, rows[i].Measurement.Usage = fmt.Sprintf("pod-%d", i), []eviction.SignalUsage{{Signal: eviction.NodeFsAvailable, Value: int64(use)}}
		all = append(all, rows[i].Pod.Name, use)
	}
	m := New("v1", "abc")
	m.Pods.Show(20)
	const rankings = 1000
	began := time.Now()
	for range rankings {
		rank.Kubelet(rows, eviction.NodeFsAvailable)
	}
	ranking := time.Since(began) / rankings
	for b.Loop() {
		m.Pods.Record(eviction.NodeFsAvailable, false, uses(all...), time.Now())
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(ranking), "of-ranking")
}
