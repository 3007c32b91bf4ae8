package host

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/node/fallback"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/host/internal/record/recorder"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// samplers returns functions that sample the node between passes: kernel and filesystem figures
// that have thresholds and that the host can read itself.
func samplers(reader *fallback.Reader, c *Config) (all []func() []eviction.Observation) {
	thresholds, _ := c.Thresholds() // already validated
	for _, thing := range [][]eviction.Signal{
		{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable, eviction.PIDAvailable},
		{eviction.NodeFsAvailable, eviction.NodeFsInodesFree},
	} {
		signals := slices.DeleteFunc(thing, func(s eviction.Signal) bool {
			return !slices.ContainsFunc(thresholds, func(t policy.Threshold) bool { return t.Signal == s })
		})
		if len(signals) > 0 {
			all = append(all, func() (read []eviction.Observation) {
				for _, s := range signals {
					read = append(read, reader.Read(s))
				}
				return read
			})
		}
	}
	return all
}

// usageTimeout bounds listing the pods.
const usageTimeout = 10 * time.Second

// podUsage returns a function that measures the memory and tasks of pods.
func podUsage(reader *fallback.Reader, active func(context.Context) (pods.Snapshot, error)) func(ctx context.Context) (recorder.Usage, error) {
	return func(ctx context.Context) (recorder.Usage, error) {
		ctx, cancel := context.WithTimeout(ctx, usageTimeout)
		defer cancel()
		known, err := active(ctx)
		if err != nil {
			return nil, err
		}
		rows := make([]eviction.Pod, len(known.Pods))
		for i := range rows {
			rows[i] = known.Pods[i].Row
		}
		of := recorder.Usage{}
		for _, s := range []eviction.Signal{eviction.MemoryAvailable, eviction.PIDAvailable} {
			used, measured := map[string]int64{}, map[string]eviction.Measurement{}
			for _, pod := range reader.Measure(ctx, s, rows) {
				used[pod.UID], measured[pod.UID] = pod.UsageFor(s), pod
			}
			first := firstOf(choose.Candidates(known), measured, s)
			for _, o := range reader.Observe(ctx, eviction.SameResource(s)) {
				if o.State == eviction.Observed {
					of[o.Signal] = recorder.Shares{Available: o.Available, Used: used, First: first}
				}
			}
		}
		return of, nil
	}
}

// firstOf returns the pod that the kubelet's order has first, empty if there is none or a figure is missing.
func firstOf(all []pods.Pod, measured map[string]eviction.Measurement, s eviction.Signal) string {
	candidates := make([]eviction.Candidate, len(all))
	for i := range all {
		m, ok := measured[all[i].Row.UID]
		if !ok {
			return ""
		}
		candidates[i] = eviction.Candidate{Pod: all[i].Row, Measurement: m}
	}
	for _, first := range rank.Kubelet(candidates, s) {
		at := slices.IndexFunc(all, func(p pods.Pod) bool { return p.Row.UID == first.UID })
		return all[at].String()
	}
	return ""
}

// pluginMarks counts what happens to plugins, and marks it in the records.
type pluginMarks struct {
	supervisor.Metrics
	m  *Manager
	up map[string]bool
}

// PluginUp implements supervisor.Metrics.
func (p pluginMarks) PluginUp(plugin string, yes bool) {
	p.Metrics.PluginUp(plugin, yes)
	if p.up[plugin] != yes {
		p.up[plugin] = yes
		p.m.records.Mark(decision.MarkPlugin, "plugin "+plugin+map[bool]string{true: " started", false: " ended"}[yes])
	}
}

// PluginStandby implements supervisor.Metrics.
func (p pluginMarks) PluginStandby(plugin string, yes bool) {
	p.Metrics.PluginStandby(plugin, yes)
	p.m.records.Mark(decision.MarkStandby, "plugin "+plugin+map[bool]string{true: " answers too slowly and is asked last", false: " is asked first again"}[yes])
}
