// Package metrics holds the Prometheus metrics: the kubelet's of eviction and preemption, and
// evictd's own.
//
// It only counts: it decides nothing, logs nothing and is separate from the JSON status. Every
// label has a bounded set of values, whatever names plugins and signals have.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/evictd/evictd/shared/eviction"
)

// Metrics holds the metrics of one host. It is safe for concurrent use. Make one with New.
type Metrics struct {
	// Also, if not nil, receives the kubelet's counts first, with unbounded names.
	Also Kubelet
	// Pods has what pods use.
	Pods *PodUsage

	registry *prometheus.Registry
	plugins  *names
	signals  *names
	// conditions are bounded too: custom signals define their own.
	conditions *names
	resources  *names

	evictions   *prometheus.CounterVec
	statsAge    *prometheus.HistogramVec
	preemptions *prometheus.CounterVec

	passDuration *prometheus.HistogramVec
	passes       prometheus.Counter
	available    *prometheus.GaugeVec
	capacity     *prometheus.GaugeVec
	unobserved   *flags
	byHost       *flags
	contradicted *flags
	condition    *flags

	aboutPlugins

	killDuration  *prometheus.HistogramVec
	victimsEnding prometheus.Gauge
	promised      *prometheus.CounterVec
	released      *prometheus.CounterVec
	reloads       *prometheus.CounterVec
	refused       prometheus.Counter

	aboutPods
	Asked
}

// Asked are functions that each scrape calls. They are to be set before the first one.
type Asked struct {
	DroppedLogLines, LostEvents func() uint64
	// Findings returns how many findings the last inspection has.
	Findings func() map[Finding]int
}

// A Finding is of a probe of an inspection.
type Finding struct{ Probe, Level string }

// aboutPods are the metrics about all pods, and about records.
type aboutPods struct {
	misplaced   prometheus.Gauge
	unmanaged   prometheus.Gauge
	kernelKills *prometheus.CounterVec
	records     *prometheus.CounterVec
}

// aboutPlugins are the host's metrics about plugins.
type aboutPlugins struct {
	pluginUp     *flags
	standby      *flags
	restarts     *prometheus.CounterVec
	callFailures *prometheus.CounterVec
	callDuration *prometheus.HistogramVec
	processes    *processes
	// ask asks the plugins for their own metrics, before each scrape.
	ask func(context.Context)
}

// Kubelet receives the counts of evictions and preemptions that the kubelet exports.
type Kubelet interface {
	Evicted(s eviction.Signal)
	StatsAge(s eviction.Signal, age time.Duration)
	Preempted(resource string)
}

// New returns the metrics of a host of the given build.
func New(version, commit string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		plugins:  bounded(), signals: bounded(), conditions: bounded(), resources: bounded(),
		Asked: Asked{func() uint64 { return 0 }, func() uint64 { return 0 }, func() map[Finding]int { return nil }},
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r := registrar{promauto.With(m.registry)}
	describe(m, r)
	m.Pods = newPodUsage(m.signals)
	m.processes, m.ask = newProcesses(m.plugins), func(context.Context) {}
	m.registry.MustRegister(m.Pods, m.processes, inspection{m})
	r.NewGauge(prometheus.GaugeOpts{
		Name:        "evictd_build_info",
		Help:        "Always 1; the labels say which build runs.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "go_version": runtime.Version()},
	}).Set(1)
	return m
}

// Handler serves the metrics in Prometheus' formats.
func (m *Metrics) Handler() http.Handler {
	inOrder := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := m.registry.Gather()
		slices.SortStableFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(place(a), place(b)) })
		return families, err
	})
	page := promhttp.HandlerFor(inOrder, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.ask(r.Context())
		page.ServeHTTP(w, r)
	})
}

// Evicted counts an eviction for s. Like in the kubelet a failed kill counts too.
func (m *Metrics) Evicted(s eviction.Signal) {
	if m.Also != nil {
		m.Also.Evicted(s)
	}
	m.evictions.WithLabelValues(m.signals.of(string(s))).Inc()
}

// StatsAge records the age of the figure of s when it was acted on.
func (m *Metrics) StatsAge(s eviction.Signal, age time.Duration) {
	if m.Also != nil {
		m.Also.StatsAge(s, age)
	}
	m.statsAge.WithLabelValues(m.signals.of(string(s))).Observe(age.Seconds())
}

// Preempted counts a pod that was killed for a critical one, by the first resource that the
// critical pod lacked. Unlike for evictions, failed kills do not count, like in the kubelet.
func (m *Metrics) Preempted(resource string) {
	if m.Also != nil {
		m.Also.Preempted(resource)
	}
	m.preemptions.WithLabelValues(m.resources.of(resource)).Inc()
}

// EvictionRefused counts an eviction that the API server refused permanently.
func (m *Metrics) EvictionRefused() { m.refused.Inc() }

// KernelKilled counts kills by the kernel's OOM killer, by where memory had run out. The counters are absent until it is called,
// with 0 for each scope: where none are looked for, none are known.
func (m *Metrics) KernelKilled(scope string, kills int) {
	m.kernelKills.WithLabelValues(scope).Add(float64(kills))
}

// Recorded counts a stored decision record, or one lost because of err.
func (m *Metrics) Recorded(err error) {
	m.records.WithLabelValues(result(err)).Inc()
}

// Passed records a pass and its trigger.
func (m *Metrics) Passed(trigger string, took time.Duration) {
	m.passes.Inc()
	m.passDuration.WithLabelValues(oneOf(trigger, triggers)).Observe(took.Seconds())
}

// Observed records the figures of s, in its base unit. Signals folded into other are not shown, as
// their figures would be mixed.
func (m *Metrics) Observed(s eviction.Signal, available, capacity int64) {
	name := m.signals.of(string(s))
	if name == other {
		return
	}
	m.available.WithLabelValues(name).Set(float64(available))
	m.capacity.WithLabelValues(name).Set(float64(capacity))
}

// Unobserved records whether a threshold of s has no observer.
func (m *Metrics) Unobserved(s eviction.Signal, yes bool) {
	m.unobserved.set(string(s), yes)
	for _, counted := range []*prometheus.CounterVec{m.evictions, m.promised, m.released} { // at 0 from the first pass on
		counted.WithLabelValues(m.signals.of(string(s)))
	}
}

// ReadByHost records whether the host reads s itself because no plugin does.
func (m *Metrics) ReadByHost(s eviction.Signal, yes bool) {
	m.byHost.set(string(s), yes)
}

// Contradicted records whether two observers of s persistently contradict each other.
func (m *Metrics) Contradicted(s eviction.Signal, yes bool) {
	m.contradicted.set(string(s), yes)
}

// SignalGone removes the figures of a signal without a threshold.
func (m *Metrics) SignalGone(s eviction.Signal) {
	name := m.signals.of(string(s))
	m.available.DeleteLabelValues(name)
	m.capacity.DeleteLabelValues(name)
	m.Pods.forget(name)
	m.unobserved.forget(string(s))
	m.byHost.forget(string(s))
	m.contradicted.forget(string(s))
}

// Condition records whether c is in force.
func (m *Metrics) Condition(c eviction.Condition, yes bool) {
	m.condition.set(string(c), yes)
}

// PluginUp records whether a plugin serves.
func (m *Metrics) PluginUp(plugin string, yes bool) {
	m.pluginUp.set(plugin, yes)
	m.restarts.WithLabelValues(m.plugins.of(plugin)) // at 0 from its first start on
}

// PluginStandby records whether a plugin is asked after all others because it is slow.
func (m *Metrics) PluginStandby(plugin string, yes bool) {
	m.standby.set(plugin, yes)
}

// PluginGone removes the state of a plugin whose binary was removed. Its counters stay: counters
// never decrease.
func (m *Metrics) PluginGone(plugin string) {
	m.pluginUp.forget(plugin)
	m.standby.forget(plugin)
}

// PluginRestarted counts a start of a plugin after its first.
func (m *Metrics) PluginRestarted(plugin string) {
	m.restarts.WithLabelValues(m.plugins.of(plugin)).Inc()
}

// CallFailed counts a call to a plugin without a usable answer.
func (m *Metrics) CallFailed(plugin, call string, err error) {
	m.callFailures.WithLabelValues(m.plugins.of(plugin), oneOf(call, calls), kindOf(err)).Inc()
}

// CallTook records the duration of a call to a plugin, answered or not.
func (m *Metrics) CallTook(plugin, call string, took time.Duration) {
	m.callDuration.WithLabelValues(m.plugins.of(plugin), oneOf(call, calls)).Observe(took.Seconds())
}

// Killed records the duration and result of a kill.
func (m *Metrics) Killed(took time.Duration, err error) {
	m.killDuration.WithLabelValues(result(err)).Observe(took.Seconds())
}

// Relieved counts what a victim was expected to free of s, in its base unit, and what it freed.
func (m *Metrics) Relieved(s eviction.Signal, promised, released int64) {
	name := m.signals.of(string(s))
	m.promised.WithLabelValues(name).Add(float64(max(0, promised)))
	m.released.WithLabelValues(name).Add(float64(max(0, released)))
}

// VictimsEnding records how many victims are not yet finished.
func (m *Metrics) VictimsEnding(n int) { m.victimsEnding.Set(float64(n)) }

// PodsMisplaced records how many running pods have no cgroup where it should be.
func (m *Metrics) PodsMisplaced(n int) { m.misplaced.Set(float64(n)) }

// PodsUnmanaged records how many running pods have no manifest.
func (m *Metrics) PodsUnmanaged(n int) { m.unmanaged.Set(float64(n)) }

// Reloaded counts a reload of the configuration, applied or refused.
func (m *Metrics) Reloaded(err error) { m.reloads.WithLabelValues(result(err)).Inc() }

func flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// kindOf returns the kind of an error, as distinguished by shared/eviction.
func kindOf(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, eviction.ErrRefused):
		return "refused"
	case errors.Is(err, eviction.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, eviction.ErrUnsupported):
		return "unsupported"
	case errors.Is(err, eviction.ErrInvalidReply):
		return "invalid_reply"
	default:
		return other
	}
}

// maxScrapes bounds concurrent scrapes.
const maxScrapes = 4

// places sorts metrics by the first word of their names: those known from the kubelet come first.
var places = map[string]int{"kubelet": -2, "evictd": -1}

func place(f *dto.MetricFamily) int {
	word, _, _ := strings.Cut(f.GetName(), "_")
	return places[word]
}
