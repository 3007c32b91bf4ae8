package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/evictd/evictd/host/internal/core/policy"
)

// Durations of passes, from a quiet one of 50 us to one that waits for a plugin's whole deadline.
var passBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// Durations of calls to plugins, few as each plugin and call has its own.
var callBuckets = []float64{.001, .01, .1, 1}

// Durations of kills, from a few milliseconds to a pod's whole grace period.
var killBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}

// describe creates and registers the metrics.
func describe(m *Metrics, r registrar) {
	// These have the kubelet's names, labels and buckets, so that its dashboards and alerts work
	// here (pkg/kubelet/metrics/metrics.go).
	m.evictions = r.counters("kubelet_evictions",
		"Pods evicted, by the signal whose threshold was acted on. Counts evictions whose kill failed too, as the kubelet does.",
		"eviction_signal")
	m.statsAge = r.histograms("kubelet_eviction_stats_age_seconds",
		"Age in seconds of the figure of a signal when it was acted on.",
		prometheus.DefBuckets, "eviction_signal")
	m.preemptions = r.counters("kubelet_preemptions",
		"Pods killed to make room for a critical one, by the first resource that this one lacked.",
		"preemption_signal")

	m.passDuration = r.histograms("evictd_pass_duration_seconds",
		"Duration in seconds of a pass from observation to decision, by what made it run.", passBuckets, "trigger")
	m.passes = r.NewCounter(prometheus.CounterOpts{Name: "evictd_passes_total", Help: "Passes since the start."})
	m.available = r.gauges("evictd_signal_available",
		"What was left of a signal when last observed, in its base unit: bytes, inodes, processes or what its plugin counts.", "signal")
	m.capacity = r.gauges("evictd_signal_capacity",
		"The capacity of a signal when last observed, in its base unit: bytes, inodes, processes or what its plugin counts.", "signal")
	m.unobserved = newFlags(r.gauges("evictd_signal_unobserved",
		"1 if a threshold is configured for the signal that could not be observed, so that it has no effect; else 0.", "signal"), m.signals, true)
	m.byHost = newFlags(r.gauges("evictd_signal_read_by_host",
		"1 while the host reads the signal by itself, because no plugin has observed it for a second; else 0.", "signal"), m.signals, true)
	m.contradicted = newFlags(r.gauges("evictd_signal_contradicted",
		"1 while a custom observer of the signal and the one that is asked beside it contradict each other, and have for a minute; else 0.", "signal"), m.signals, true)
	m.condition = newFlags(r.gauges("evictd_node_condition",
		"1 while the node condition is in force, else 0.", "condition"), m.conditions, true)
	m.misplaced = r.gauge("evictd_pods_misplaced", "Running pods without a cgroup where it should be, their own or a container's.")
	m.unmanaged = r.gauge("evictd_pods_unmanaged", "Running pods without a manifest, which are never evicted, as of the last listing of the pods.")

	m.pluginUp = newFlags(r.gauges("evictd_plugin_up", "1 while the plugin serves, else 0.", "plugin"), m.plugins, false)
	m.standby = newFlags(r.gauges("evictd_plugin_standby",
		"1 while the plugin is asked after all others that offer the same, because its answers were too slow; else 0.", "plugin"), m.plugins, true)
	m.restarts = r.counters("evictd_plugin_restarts_total", "Starts of a plugin after its first.", "plugin")
	m.callFailures = r.counters("evictd_plugin_call_failures_total",
		"Calls to a plugin that had no usable answer, by the call and the kind of failure.", "plugin", "call", "kind")
	m.callDuration = r.histograms("evictd_plugin_call_duration_seconds",
		"Duration in seconds of a call to a plugin, answered or not.", callBuckets, "plugin", "call")

	m.killDuration = r.histograms("evictd_kill_duration_seconds",
		"Time in seconds to stop the containers of a pod, its grace period included, by result.", killBuckets, "result")
	m.promised = r.counters("evictd_relief_promised_total",
		"What victims of node pressure were expected to free, by signal, in its base unit; counted when nothing more is expected of the victim.", "signal")
	m.released = r.counters("evictd_relief_freed_total", "What of that was seen to come back, by signal, in its base unit.", "signal")
	m.victimsEnding = r.gauge("evictd_kills_in_flight", "Victims that are not yet finished.")
	m.reloads = r.counters("evictd_config_reloads_total",
		"Reloads of the configuration, by result: ok was applied, error was refused whole.", "result")
	m.records = r.counters("evictd_decision_records_total",
		"Records of decisions, and of what followed them, by result: ok was kept, error is lost.", "result")
	m.kernelKills = r.counters("evictd_kernel_oom_kills_total",
		"Kills of pods' processes by the kernel's OOM killer, by whose memory had run out: node, kubepods, class, pod, container or unknown.", "scope")
	// Created at the start, so that an alert on an increase sees the first one.
	for _, limit := range []string{policy.LabelEmptyDirLimit, policy.LabelPodStorageLimit, policy.LabelContainerStorageLimit} {
		m.evictions.WithLabelValues(limit)
	}
	for _, result := range []string{"ok", "error"} {
		m.killDuration.WithLabelValues(result)
		m.reloads.WithLabelValues(result)
		m.records.WithLabelValues(result)
	}
	r.asked("evictd_log_lines_dropped_total", "Lines of the log that were dropped, since it could not be written for too long.", &m.DroppedLogLines)
	m.refused = r.NewCounter(prometheus.CounterOpts{Name: "evictd_evictions_refused_total", Help: "Evictions that the API server refused in each form, deletion included."})
	r.asked("evictd_events_lost_total", "Events that never reached the API server.", &m.LostEvents)
}

type registrar struct{ promauto.Factory }

func (r registrar) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return r.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// asked registers a counter whose value by returns; by may be set later.
func (r registrar) asked(name, help string, by *func() uint64) {
	r.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64((*by)()) })
}

func (r registrar) gauge(name, help string) prometheus.Gauge {
	return r.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func (r registrar) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return r.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func (r registrar) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return r.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

// inspection collects the findings of m.
type inspection struct{ m *Metrics }

var findingsDesc = prometheus.NewDesc("evictd_inspection_findings", "What evictctl check finds wrong now, by probe and level.", []string{"probe", "level"}, nil)

// Describe implements prometheus.Collector.
func (inspection) Describe(to chan<- *prometheus.Desc) { to <- findingsDesc }

// Collect implements prometheus.Collector.
func (i inspection) Collect(to chan<- prometheus.Metric) {
	for f, n := range i.m.Findings() {
		to <- prometheus.MustNewConstMetric(findingsDesc, prometheus.GaugeValue, float64(n), f.Probe, f.Level)
	}
}
