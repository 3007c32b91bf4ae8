package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/wake"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/expected"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/ground/quantity"
	"github.com/evictd/evictd/host/internal/node/fallback"
	"github.com/evictd/evictd/host/internal/node/summary"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
)

// Capacity returns an error for thresholds above the capacity of this node, as far as the host can
// read it: every pod would be evicted. A kubelet does not start with such a hard threshold
// (pkg/kubelet/cm/node_container_manager_linux.go:validateNodeAllocatable).
func Capacity(ctx context.Context, c *config.Config) error {
	var f Findings
	n := &node{Options: Options{Config: c}, c: c}
	n.thresholds, _ = c.Thresholds() // an invalid configuration was refused before
	tryCapacity(ctx, n, &f)
	if len(f.Texts(Fatal)) == 0 {
		return nil
	}
	return errors.New(strings.Join(f.Texts(Fatal), "\n"))
}

func tryCapacity(ctx context.Context, n *node, f *Findings) {
	if n.c.Source != config.SourceNative {
		return
	}
	reader := fallback.New(parts.NodeFacts(n.c, ""))
	for _, o := range reader.Observe(ctx, []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.PIDAvailable}) {
		f.limited(o)
		f.aboveCapacity(n.thresholds, o)
	}
	allocatable := reader.Observe(ctx, []eviction.Signal{eviction.AllocatableMemoryAvailable})[0]
	f.limited(allocatable)
	f.aboveCapacity(n.thresholds, allocatable)
}

// tryThresholds reports slips of a unit, and the thresholds that are met now, as far as the host can read
// their signals.
func tryThresholds(ctx context.Context, n *node, f *Findings) {
	f.slips(n.c)
	if n.c.Source != config.SourceNative {
		return
	}
	reader := fallback.New(parts.NodeFacts(n.c, ""))
	f.figures(n, reader.Observe(ctx, []eviction.Signal{eviction.MemoryAvailable})[0])
	for _, t := range n.thresholds {
		if !reader.Reads(t.Signal) {
			continue
		}
		o := reader.Observe(ctx, []eviction.Signal{t.Signal})[0]
		if limit := t.Amount(o.Capacity); o.State == eviction.Observed && limit.CmpInt64(o.Available) > 0 {
			f.add(Advice, "%s is met now: %s available of %s", t, amount(t.Signal, o.Available), amount(t.Signal, o.Capacity))
		}
	}
}

// leastDifference is less than what the two figures of memory.available differ by on most nodes, in bytes.
const leastDifference = 16 << 20

// figures reports that thresholds of memory.available are met earlier or later than a kubelet's of the same value.
func (f *Findings) figures(n *node, o eviction.Observation) {
	components := map[string]int64{}
	for _, c := range o.Components {
		components[c.Name] = c.Value
	}
	kubelet, memAvailable, ok := figures.BothMemory(o.Capacity, components)
	earlier := kubelet - o.Available
	if !ok || -leastDifference < earlier && earlier < leastDifference {
		return
	}
	word := "earlier"
	if earlier < 0 {
		word = "later"
	}
	for _, t := range n.thresholds {
		if t.Signal == o.Signal {
			value := t.Amount(o.Capacity)
			equal := "no value here"
			if left := value.Value() - earlier; left > 0 {
				equal = mib(left) + " here"
			}
			f.add(Advice, "%s is met %s %s than a kubelet's: memory.available is MemAvailable, %s, and in a kubelet %s; its %s is %s, or set memoryFigure to \"kubelet\"",
				t, mib(max(earlier, -earlier)), word, mib(memAvailable), mib(kubelet), t.Value, equal)
		}
	}
}

func mib(bytes int64) string { return fmt.Sprintf("%dMi", bytes>>20) }

// limited reports a cgroup above the signal's own whose limit is the closest.
func (f *Findings) limited(o eviction.Observation) {
	for _, c := range o.Components {
		if strings.HasPrefix(c.Name, figures.LimitOf) && c.Value == o.Capacity {
			f.add(Advice, "%s is counted below the %s, %s, which is closer than the limit of the machine or of all pods", o.Signal, c.Name, amount(o.Signal, c.Value))
		}
	}
}

func (f *Findings) aboveCapacity(thresholds []policy.Threshold, o eviction.Observation) {
	for _, t := range thresholds {
		if t.Signal != o.Signal || o.State != eviction.Observed {
			continue
		}
		field, of, key := map[bool]string{true: "evictionHard", false: "evictionSoft"}[t.Hard()], "this node", t.Signal
		if t.Signal == eviction.AllocatableMemoryAvailable { // follows from the other; the kubelet does not check its value
			of, key = "all pods", eviction.MemoryAvailable
		}
		value := t.Value.Of(o.Capacity)
		left := *resource.NewQuantity(o.Capacity, value.Format)
		left.Sub(value)
		switch {
		case left.Sign() < 0 && key == t.Signal:
			f.add(Fatal, "%s[%q]: %q: is above the capacity of this node, %s: every pod would be evicted; want less", field, t.Signal, t.Value, amount(t.Signal, o.Capacity))
		case t.MinReclaim != nil && left.Cmp(t.MinReclaim.Of(o.Capacity)) <= 0 && left.Sign() > 0:
			f.add(Warning, "evictionMinimumReclaim[%q]: %q: with %s of %s it is not below the capacity of %s, %s: once the threshold is met it stays met, and pod after pod goes; want less than %s", key, t.MinReclaim, t.Value, field, of, amount(t.Signal, o.Capacity), amount(t.Signal, left.Value()))
		}
	}
}

// slips reports amounts without the unit that is probably meant, or with one of bytes for what is counted.
// "1" stands for a threshold that is never met.
func (f *Findings) slips(c *config.Config) {
	for _, of := range []struct {
		field   string
		amounts map[string]string
	}{{"evictionHard", c.EvictionHard}, {"evictionSoft", c.EvictionSoft}, {"evictionMinimumReclaim", c.EvictionMinimumReclaim}} {
		for _, s := range slices.Sorted(maps.Keys(of.amounts)) {
			text := of.amounts[s]
			q, err := quantity.Parse(text) // a percentage is an error
			b, builtin := eviction.Builtin(eviction.Signal(s))
			bytes := b.Format == eviction.FormatBinarySI
			switch {
			case err != nil || !builtin || q.Sign() <= 0 || q.CmpInt64(1) == 0:
			case bytes && q.CmpInt64(1<<20) < 0:
				f.add(Advice, "%s[%q]: %q: is less than 1 MiB, hardly what is meant; want a unit as in \"100Mi\", or a percentage", of.field, s, text)
			case !bytes && (q.CmpInt64(1) < 0 || q.Format == resource.BinarySI):
				f.add(Advice, "%s[%q]: %q: is not a number of processes or inodes; want one without a unit as in \"1000\", or a percentage", of.field, s, text)
			}
		}
	}
}

// tryPluginDir reports a plugin directory without plugins.
func tryPluginDir(_ context.Context, n *node, f *Findings) {
	if err := CheckPluginDir(n.c.PluginDir); err != nil {
		level := Error
		if isDir(n.c.PluginDir) != nil {
			level = Fatal
		}
		f.add(level, "pluginDir: %q: %v", n.c.PluginDir, err)
	}
}

// CheckPluginDir returns why dir contains no usable plugin.
func CheckPluginDir(dir string) error {
	const want = "want a directory of plugin executables"
	if err := isDir(dir); err != nil {
		return fmt.Errorf("%w, %s", err, want)
	}
	plugins, err := plugindir.Names(dir)
	if err != nil { // the directory is refused, which supervisor.Check reports
		return nil //nolint:nilerr // see above
	}
	for _, name := range plugins {
		path, socket := plugindir.Path(dir, name)
		if info, err := os.Stat(path); err == nil && (socket || info.Mode().IsRegular() && info.Mode()&0o111 != 0) {
			return nil
		}
	}
	return errors.New("has no executable in it, want at least one plugin, else no signal is observed")
}

// tryPluginFiles checks the plugins' files and settings without starting any.
func tryPluginFiles(_ context.Context, n *node, f *Findings) {
	if isDir(n.c.PluginDir) != nil { // another probe reports that
		return
	}
	if others := plugindir.Others(n.c.PluginDir); len(others) > 0 {
		f.add(Warning, "pluginDir: %q: not started: %s; want names of the form %s, with .sock for a socket", n.c.PluginDir, printable.ClipText(strings.Join(others, ", ")), plugindir.NameForm)
	}
	refused, warnings := supervisor.Check(supervisor.Options{Dir: n.c.PluginDir, Settings: parts.PluginSettings(n.c), Assign: n.c.Assign})
	missing, unknown := expected.Check(n.c)
	f.addAll(Error, append(refused, missing...)...)
	for _, w := range append(warnings, unknown...) {
		f.add(Warning, "%s", w)
	}
}

// tryPlugins starts the plugins with the daemon's confinement, and has them observe the signals of
// all thresholds as in a pass. If some are assigned to the kubelet's summary they are not asked:
// another probe fetches it.
func tryPlugins(ctx context.Context, n *node, f *Findings) {
	if !n.StartPlugins || isDir(n.c.PluginDir) != nil {
		return
	}
	errs := supervisor.Try(ctx, supervisor.Options{
		Dir: n.c.PluginDir, Host: eviction.Host{Version: n.Version}, Node: parts.NodeFacts(n.c, n.driver().InUse(n.c.CgroupDriver)),
		Settings: parts.PluginSettings(n.c), Assign: n.c.Assignment(), Log: slog.New(slog.DiscardHandler),
	}, func(s *supervisor.Supervisor) {
		if !n.c.UsesSummary() {
			n.tryObserve(ctx, s, f)
		}
	})
	f.addAll(Error, slices.DeleteFunc(errs, func(err error) bool { // tryCgroups reports that
		return err != nil && strings.Contains(err.Error(), nodefs.MissingController{Name: "memory"}.Error())
	})...)
}

// tryObserve performs the observing part of a pass.
func (n *node) tryObserve(ctx context.Context, s *supervisor.Supervisor, f *Findings) {
	o := observe.New(observe.Options{Metrics: metrics.New("", ""), Log: slog.New(slog.DiscardHandler), Now: time.Now, CheckSampleTimes: true})
	o.Configure(observe.Config{Thresholds: n.thresholds, Assigned: n.c.Assigned})
	pin := s.Pin()
	defer pin.Release()
	o.Thresholds.Define(pin)
	if _, err := o.Look(ctx, observe.Request{Pin: pin, At: eviction.PassView{Pass: 1}, Scope: wake.Scope{Full: true}}); err != nil {
		f.add(Error, "plugins: observe: %v", err)
		return
	}
	reader := fallback.New(parts.NodeFacts(n.c, ""))
	state := map[string]supervisor.State{}
	for _, p := range s.Status() {
		state[p.Name] = p.State
	}
	var off []string
	failing := map[string][]string{} // by reason
	for _, status := range o.Statuses() {
		last, signal := o.Last(status.Signal), status.Signal
		b, builtin := eviction.Builtin(signal)
		if !reader.Reads(signal) { // otherwise the capacity probe covers it
			f.aboveCapacity(n.thresholds, last)
		}
		of, there := state[b.Plugin]
		switch {
		case last.State == eviction.Absent && !builtin: // that a signal of the kubelet is absent is the node's affair
			f.add(Warning, "thresholds of %s have no effect: %s; want a node on which their plugin can observe them, or no such thresholds", signal, cmp.Or(last.Err, "the node does not have what it measures"))
		case last.State != eviction.Unknown, n.reported(b.Filesystem), there && of != supervisor.Running && of != supervisor.Disabled:
			// No problem, or another probe or supervisor.Try has reported it.
		case last.Err == observe.NoObserver && !slices.Contains(n.c.RequiredSignals, string(signal)):
			off = append(off, string(signal))
		default:
			why := cmp.Or(last.Err, "its plugin does not say why")
			failing[why] = append(failing[why], string(signal))
		}
	}
	if len(off) > 0 {
		f.add(Warning, "thresholds of %s have no effect: no plugin in pluginDir observes them; want one that does, or no such thresholds", strings.Join(off, ", "))
	}
	for _, why := range slices.Sorted(maps.Keys(failing)) {
		f.add(Error, "thresholds of %s have no effect: %s; want a node on which their plugin can observe them, or no such thresholds", strings.Join(failing[why], ", "), why)
	}
}

// reported reports whether another probe explains why signals of a filesystem are not observed.
func (n *node) reported(of eviction.Filesystem) bool {
	if of == "" {
		return false
	}
	_, err := n.layout()
	return err != nil || isDir(n.kubeletDir()) != nil
}

// trySummary fetches the kubelet's summary once.
func trySummary(ctx context.Context, n *node, f *Findings) {
	if !n.c.UsesSummary() {
		return
	}
	unverified := false
	source, err := summary.Open(n.c.Summary)
	if err == nil {
		_, err = source.Fetch(ctx)
		unverified = source.Unverified()
		source.Close()
	}
	if err != nil {
		f.add(Error, "summary.kubeconfig: %v: no signal is observed; want a kubeconfig for a kubelet's /stats/summary that evictd may read", err)
	}
	if unverified {
		f.add(Warning, "summary.kubeconfig: insecure-skip-tls-verify is true: any server that answers at the address decides what is evicted")
	}
}

// amount formats an amount of a signal as a quantity.
func amount(s eviction.Signal, n int64) string {
	b, _ := eviction.Builtin(s)
	return resource.NewQuantity(n, resource.Format(b.Format)).String()
}
