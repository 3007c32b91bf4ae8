package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/procfs"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/meters"
	"github.com/evictd/evictd/shared/eviction"
)

// pluginPrefix begins the names of metrics of plugins: the host's about them, and their own.
const pluginPrefix = "evictd_plugin_"

// ownNames are the host's metrics of plugins, in any form of their names.
var ownNames = []string{"up", "standby", "restarts", "call_failures", "call_duration_seconds", "resident_memory_bytes", "cpu_seconds"}

// Own reports whether a plugin's metric would have the name of a metric of the host. In some formats names have a suffix.
func Own(name string) bool {
	for _, suffix := range []string{"_total", "_bucket", "_count", "_sum"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return slices.Contains(ownNames, name)
}

// ShowPlugins adds the plugins' own metrics, which each scrape asks for, and the use of their processes. It must be
// called before the first scrape.
func (m *Metrics) ShowPlugins(all *meters.Meters) {
	m.ask, m.processes.pin = all.Ask, all.Pin
	m.registry.MustRegister(&pluginMetrics{all.Series, m.plugins})
}

// pluginMetrics collects the plugins' own metrics. Plugins may give one metric different labels, which no description
// covers.
type pluginMetrics struct {
	series  func() []meters.Series
	plugins *names
}

// Describe implements prometheus.Collector.
func (*pluginMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Plugins folded into other are not shown, as their figures would be mixed.
func (p *pluginMetrics) Collect(to chan<- prometheus.Metric) {
	for _, s := range p.series() {
		name, kind := p.plugins.of(s.Plugin), prometheus.GaugeValue
		if name == other {
			continue
		}
		if s.Type == eviction.Counter {
			kind = prometheus.CounterValue
		}
		labels, values := []string{"plugin"}, []string{name}
		for label, value := range s.Labels {
			labels, values = append(labels, label), append(values, value)
		}
		desc := prometheus.NewDesc(pluginPrefix+s.Name, s.Help, labels, nil)
		if one, err := prometheus.NewConstMetric(desc, kind, s.Value, values...); err == nil { // an error would end the whole scrape
			to <- one
		}
	}
}

// processes collects what the plugins' processes use.
type processes struct {
	resident, cpu *prometheus.Desc
	plugins       *names
	pin           func() *registry.Pin
}

func newProcesses(plugins *names) *processes {
	return &processes{
		resident: prometheus.NewDesc(pluginPrefix+"resident_memory_bytes", "Resident memory of the plugin's process.", []string{"plugin"}, nil),
		cpu:      prometheus.NewDesc(pluginPrefix+"cpu_seconds_total", "CPU time of the plugin's process, user and system.", []string{"plugin"}, nil),
		plugins:  plugins, pin: registry.NewCurrent().Pin,
	}
}

// Describe implements prometheus.Collector.
func (p *processes) Describe(to chan<- *prometheus.Desc) { to <- p.resident; to <- p.cpu }

// Collect implements prometheus.Collector. A process that has just ended is left out.
func (p *processes) Collect(to chan<- prometheus.Metric) {
	pin := p.pin()
	defer pin.Release()
	for _, i := range pin.Instances() {
		name := p.plugins.of(i.Name)
		if i.PID == 0 || name == other {
			continue
		}
		proc, err := procfs.NewProc(i.PID)
		if err != nil {
			continue
		}
		if stat, err := proc.Stat(); err == nil {
			to <- prometheus.MustNewConstMetric(p.resident, prometheus.GaugeValue, float64(stat.ResidentMemory()), name)
			to <- prometheus.MustNewConstMetric(p.cpu, prometheus.CounterValue, stat.CPUTime(), name)
		}
	}
}
