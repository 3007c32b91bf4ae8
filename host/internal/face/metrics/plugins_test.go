package metrics

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/meters"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/shared/eviction"
)

// A metered plugin is called through gRPC, like any other.
type metered func(context.Context) ([]eviction.Metric, error)

func (f metered) Metrics(ctx context.Context) ([]eviction.Metric, error) { return f(ctx) }

func (metered) Rank(context.Context, eviction.RankRequest) ([]eviction.Ranked, error) {
	return nil, nil
}

// logged is a log that is read while it is written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// withPlugins returns the metrics of a host with these plugins, and its log.
func withPlugins(t testing.TB, all map[string]metered) (*Metrics, *logged) {
	t.Helper()
	m, log := New("v1", "abc"), &logged{}
	inside := supervisor.InProcess{}
	for name, f := range all {
		inside[name] = eviction.Plugin{Name: name, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}}, Ranker: f, Meter: f}
	}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s, err := supervisor.New(supervisor.Options{Inside: inside, Log: logger, Metrics: m})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	<-s.Started()
	m.ShowPlugins(meters.New(meters.Options{Pin: s.Pin, Own: Own, Failed: m.CallFailed, Log: logger}))
	return m, log
}

// parsed reads a page like Prometheus.
func parsed(t testing.TB, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatalf("%v:\n%s", err, page)
	}
	return families
}

func samples(n int) (all []eviction.Sample) {
	for i := range n {
		all = append(all, eviction.Sample{Labels: map[string]string{"n": fmt.Sprint(i)}, Value: float64(i)})
	}
	return all
}

func answers(all ...eviction.Metric) metered {
	return func(context.Context) ([]eviction.Metric, error) { return all, nil }
}

// Whatever names, types, labels and texts plugins choose, the page is one that Prometheus reads.
func TestPluginsDoNotBreakThePage(t *testing.T) {
	sample := func(labels ...string) (s eviction.Sample) {
		s.Labels = map[string]string{}
		for i := 0; i+1 < len(labels); i += 2 {
			s.Labels[labels[i]] = labels[i+1]
		}
		return s
	}
	m, log := withPlugins(t, map[string]metered{
		"a": answers(
			eviction.Metric{Name: "lookups_total", Help: "Lookups.", Type: eviction.Counter, Samples: []eviction.Sample{sample(), sample("cache", "l1\n\"\\é")}},
			eviction.Metric{Name: "size", Help: "two\nlines \\ \"quoted\"", Samples: []eviction.Sample{sample("z", "1", "a", "2", "le", "3", "quantile", "4")}},
			eviction.Metric{Name: "empty"},
		),
		"b": answers(
			eviction.Metric{Name: "lookups_total", Help: "Others.", Type: eviction.Counter, Samples: []eviction.Sample{sample("disk", "sda"), sample("instance", "x", "job", "y")}},
			eviction.Metric{Name: "size", Type: eviction.Counter, Samples: samples(3)},
			eviction.Metric{Name: "up", Samples: samples(1)},
			eviction.Metric{Name: "restarts_total", Type: eviction.Counter, Samples: samples(1)},
			eviction.Metric{Name: "call_duration_seconds_sum", Samples: samples(1)},
			eviction.Metric{Name: "call_duration_seconds", Samples: samples(1)},
			eviction.Metric{Name: "standby", Samples: samples(1)},
		),
		"\xff": answers(eviction.Metric{Name: "lookups_total", Type: eviction.Counter, Samples: samples(1)}),
	})
	m.CallTook("a", "rank", time.Millisecond)
	page := scrape(t, m)
	families := parsed(t, page)
	for _, want := range []string{
		"# HELP evictd_plugin_lookups_total Lookups.\n# TYPE evictd_plugin_lookups_total counter\n",
		`evictd_plugin_lookups_total{plugin="a"} 0`, `evictd_plugin_lookups_total{cache="l1\n\"\\é",plugin="a"} 0`,
		`evictd_plugin_lookups_total{disk="sda",plugin="b"} 0`, `evictd_plugin_lookups_total{instance="x",job="y",plugin="b"} 0`,
		`evictd_plugin_size{a="2",le="3",plugin="a",quantile="4",z="1"} 0`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
	if n := len(families["evictd_plugin_size"].GetMetric()); n != 1 || len(families["evictd_plugin_up"].GetMetric()) != 3 {
		t.Errorf("%d of size, %v", n, families["evictd_plugin_up"])
	}
	for _, want := range []string{"size: another plugin has it as another type", "up: the host", "restarts_total: the host", "call_duration_seconds_sum: the host", "call_duration_seconds: the host", "standby: the host"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log)
		}
	}
}

func TestEachNameOfTheHostIsItsOwn(t *testing.T) {
	m := New("", "")
	descs := make(chan *prometheus.Desc, 1000)
	m.registry.Describe(descs)
	close(descs)
	found := map[string]bool{}
	for d := range descs {
		if name := regexp.MustCompile(`fqName: "evictd_plugin_([^"]+)"`).FindStringSubmatch(d.String()); name != nil {
			found[name[1]] = true
			bare := strings.TrimSuffix(name[1], "_total")
			for _, suffix := range []string{"", "_sum", "_count", "_bucket", "_total"} {
				if !Own(bare + suffix) {
					t.Errorf("a plugin may have %s", bare+suffix)
				}
			}
		}
	}
	if len(found) != len(ownNames) {
		t.Errorf("found %q, listed are %q", slices.Sorted(maps.Keys(found)), ownNames)
	}
	if Own("lookups_total") || Own("ups") {
		t.Error("a plugin has no name")
	}
}

// A plugin of 10,000 series is cut, one that hangs costs a scrape the deadline, and the others' series stay as they are.
func TestPluginsThatAreTooMuch(t *testing.T) {
	good := answers(eviction.Metric{Name: "good", Samples: samples(10)})
	host := func(all map[string]metered) (page string, took time.Duration, log *logged, m *Metrics) {
		all["good"] = good
		m, log = withPlugins(t, all)
		scrape(t, m)
		begin := time.Now()
		page = scrape(t, m)
		return page, time.Since(begin), log, m
	}
	alone, quick, _, _ := host(map[string]metered{})
	var hanging atomic.Int32
	end := make(chan struct{})
	defer close(end)
	page, slow, log, m := host(map[string]metered{
		"many": answers(eviction.Metric{Name: "many", Samples: samples(10_000)}),
		"hangs": func(context.Context) ([]eviction.Metric, error) {
			hanging.Add(1)
			defer hanging.Add(-1)
			<-end
			return nil, nil
		},
	})
	t.Logf("a scrape takes %v, %v with these plugins: %d and %d bytes", quick, slow, len(alone), len(page))
	if slow > quick+eviction.MetricsDeadline+300*time.Millisecond {
		t.Errorf("a scrape took %v, %v without", slow, quick)
	}
	for line := range strings.Lines(alone) {
		if strings.Contains(line, `plugin="good"`) && strings.HasPrefix(line, "evictd_plugin_good") && !strings.Contains(page, line) {
			t.Errorf("no %s", line)
		}
	}
	if strings.Contains(page, "evictd_plugin_many") {
		t.Error("some of the 10,000 are shown")
	}
	counted := func(call string) bool { return strings.Contains(page, "evictd_plugin_call_failures_total"+call) }
	const cut, late = `{call="metrics",kind="invalid_reply",plugin="many"}`, `{call="metrics",kind="timeout",plugin="hangs"}`
	for tries := 0; tries < 20 && (!counted(cut) || !counted(late)); tries++ { // on a busy machine both may be late
		page = scrape(t, m)
	}
	families := parsed(t, page)
	if n := len(families["evictd_plugin_good"].GetMetric()); n != 10 {
		t.Errorf("%d series of the good one", n)
	}
	if !counted(cut) || !counted(late) {
		t.Errorf("the failures are not counted:\n%s", page)
	}
	if n := hanging.Load(); n > 3 {
		t.Errorf("%d calls hang", n)
	}
	for _, want := range []string{`plugin=many error="plugin many: metrics: invalid reply`, `plugin=hangs error="plugin hangs: metrics: context deadline exceeded"`} {
		if !strings.Contains(log.String(), `msg="plugin has no new metrics, the last ones are shown" `+want) {
			t.Errorf("the log does not say %s:\n%s", want, log)
		}
	}
}

// What ten plugins add to a page, and to the time of a scrape.
func TestCardinalityOfTenPlugins(t *testing.T) {
	all := map[string]metered{}
	for i := range 10 {
		all[fmt.Sprint("plugin-", i)] = answers(
			eviction.Metric{Name: "lookups_total", Help: "Lookups.", Type: eviction.Counter, Samples: samples(32)},
			eviction.Metric{Name: fmt.Sprintf("size_%d", i), Help: "Size.", Samples: samples(32)},
		)
	}
	m, _ := withPlugins(t, all)
	for name := range all {
		for _, call := range []string{"observe", "measure", "rank", "reclaim"} {
			m.CallTook(name, call, time.Millisecond)
		}
	}
	scrape(t, m)
	begin := time.Now()
	const times = 20
	var page string
	for range times {
		page = scrape(t, m)
	}
	took := time.Since(begin) / times
	series, own := 0, 0
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, pluginPrefix) {
			series++
			if strings.HasPrefix(line, pluginPrefix+"lookups") || strings.HasPrefix(line, pluginPrefix+"size") {
				own++
			}
		}
	}
	parsed(t, page)
	t.Logf("%d series of plugins, %d of them their own; %d bytes in all; %v a scrape", series, own, len(page), took)
	if own != 10*eviction.MaxSamples || series-own > 10*60 {
		t.Errorf("%d series, %d of them the plugins'", series, own)
	}
}

func TestTheUseOfProcesses(t *testing.T) {
	m, current := New("", ""), registry.NewCurrent()
	m.ShowPlugins(meters.New(meters.Options{Pin: current.Pin}))
	var all []registry.Plugin
	for name, pid := range map[string]int{"self": os.Getpid(), "inside": 0, "gone": 1 << 30} {
		all = append(all, registry.Plugin{Name: name, Instance: registry.NewInstance(name, 1, pid, &eviction.Plugin{})})
	}
	current.Publish(registry.New(all, nil))
	families := parsed(t, scrape(t, m))
	resident, cpu := families["evictd_plugin_resident_memory_bytes"].GetMetric(), families["evictd_plugin_cpu_seconds_total"].GetMetric()
	if len(resident) != 1 || resident[0].GetGauge().GetValue() < 1<<20 || len(cpu) != 1 || cpu[0].GetLabel()[0].GetValue() != "self" {
		t.Errorf("%v, %v", resident, cpu)
	}
	current.Publish(registry.New(nil, nil))
	if page := scrape(t, m); strings.Contains(page, "evictd_plugin_cpu") {
		t.Error("a plugin that is gone is shown")
	}
}

func BenchmarkCallTook(b *testing.B) {
	m := New("", "")
	for b.Loop() {
		m.CallTook("memory", "observe", time.Millisecond)
	}
}
