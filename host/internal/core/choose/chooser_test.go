package choose_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// A plugin measures what a test sets, and ranks as the kubelet or as a test sets.
type plugin struct {
	name    string
	uses    map[string]int64
	atMost  map[string]int64
	bare    bool  // memory as the working set alone
	fails   error // to measure
	order   []string
	refuses error // to rank
}

func (p *plugin) Measure(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	for _, pod := range r.Pods {
		if use, known := p.uses[pod.UID]; known && p.fails == nil {
			m := eviction.Measurement{UID: pod.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: r.Signals[0], Value: use, AtMost: p.atMost[pod.UID]}}}
			if p.bare && r.Signals[0] == eviction.MemoryAvailable {
				m.WorkingSetBytes, m.Usage = eviction.Some(use), nil
			}
			emit(m)
		}
	}
	return p.fails
}

func (p *plugin) Rank(_ context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
	if p.order == nil {
		return rank.Kubelet(r.Candidates, r.Signal), p.refuses
	}
	var order []eviction.Ranked
	for _, uid := range p.order {
		order = append(order, eviction.Ranked{UID: uid})
	}
	return order, p.refuses
}

// Reads implements observe.Fallback: the host reads what pods use, and nothing else.
func (p *plugin) Reads(eviction.Signal) bool { return false }

// Whole implements observe.Fallback.
func (p *plugin) Whole(eviction.Signal) (w eviction.Whole) { return w }

// Observe implements observe.Fallback.
func (p *plugin) Observe(context.Context, []eviction.Signal) []eviction.Observation { return nil }

// A host measures by itself what the plugin of that name would.
type host struct{ *plugin }

func (h host) Measure(ctx context.Context, s eviction.Signal, rows []eviction.Pod) (out []eviction.Measurement) {
	_ = h.plugin.Measure(ctx, eviction.MeasureRequest{Signals: []eviction.Signal{s}, Pods: rows}, func(m eviction.Measurement) { out = append(out, m) })
	return out
}

// A node has pods, and plugins that measure or rank them.
type node struct {
	pods    []pods.Pod
	plugins []*registry.Instance
	chooser *choose.Chooser
	ending  map[string]bool
	signal  eviction.Signal
	// awaits is called by a listing.
	awaits func()
	// observed is the figure of the node that the choice is for, left the time until nothing is left.
	observed eviction.Observation
	left     time.Duration
}

// Active implements pods.Source.
func (n *node) Active(context.Context) (pods.Snapshot, error) {
	if n.awaits != nil {
		n.awaits()
	}
	return pods.Snapshot{Pods: n.pods}, nil
}

func newNode(t *testing.T, fallback observe.Fallback, names ...string) *node {
	n := &node{ending: map[string]bool{}, signal: eviction.MemoryAvailable}
	for _, name := range names {
		n.add(name)
	}
	n.chooser = choose.New(choose.Options{
		Options: observe.Options{Metrics: metrics.New("test", ""), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Fallback: fallback},
		Pods:    n, Responsiveness: new(observe.Responsiveness),
	})
	return n
}

func (n *node) add(name string) *v1.Pod {
	api := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.pods = append(n.pods, pods.Pod{API: api, HasManifest: true, Row: eviction.Pod{UID: name, Namespace: "ns", Name: name}})
	return api
}

// start starts a plugin that does what c says.
func (n *node) start(p *plugin, c eviction.Capability) {
	n.plugins = append(n.plugins, &registry.Instance{Name: p.name, Plugin: &eviction.Plugin{
		Name: p.name, Measurer: p, Ranker: p, Signals: []eviction.SignalSpec{{Signal: n.signal, Capabilities: c}},
	}})
}

// choice returns the choice, and as text the ranker and the order with the use of each pod.
func (n *node) choice(t *testing.T, veto bool) (choose.Choice, string) {
	t.Helper()
	thresholds, err := policy.ParseThresholds(policy.ThresholdConfig{Hard: map[string]string{string(n.signal): "1Gi"}})
	if err != nil {
		t.Fatal(err)
	}
	var plugins []registry.Plugin
	for _, i := range n.plugins {
		plugins = append(plugins, registry.Plugin{Name: i.Name, Instance: i, Said: i.Plugin})
	}
	current := registry.NewCurrent()
	current.Publish(registry.New(plugins, nil))
	pin := current.Pin()
	defer pin.Release()
	c := n.chooser.Choose(t.Context(), pin, choose.Request{
		Threshold: thresholds[0], Observation: n.observed, At: eviction.PassView{Pass: 1, View: eviction.ViewBefore},
		Ending: func(uid string) bool { return n.ending[uid] }, Veto: veto, List: n.chooser.List, MeasureOn: true, Bounds: choose.Bounds{Left: n.left},
	})
	var text []string
	for _, r := range c.Order {
		use := "?"
		if m := c.Measured[r.UID]; m.State == eviction.Measured {
			use = fmt.Sprint(m.UsageFor(n.signal))
		}
		text = append(text, r.UID+" "+use)
	}
	return c, c.Ranker + ": " + strings.Join(text, ", ")
}

func TestWhoMeasuresAndWhoRanks(t *testing.T) {
	const both = eviction.CanMeasure | eviction.CanRank
	memory := plugin{name: "memory", uses: map[string]int64{"a": 1, "b": 7}}
	broken := plugin{name: "memory", fails: eviction.ErrUnavailable}
	for name, c := range map[string]struct {
		custom   *plugin
		does     eviction.Capability
		builtin  plugin
		ranks    bool
		fallback observe.Fallback
		veto     bool
		want     string
	}{
		"the built-in plugin":                       {nil, 0, memory, true, nil, false, "memory: b 7, a 1"},
		"without a ranker the host ranks":           {nil, 0, memory, false, nil, false, "evictd: b 7, a 1"},
		"a custom plugin measures first":            {&plugin{uses: map[string]int64{"a": 9}}, eviction.CanMeasure, memory, true, nil, false, "memory: a 9, b 7"},
		"one that fails is followed by the next":    {&plugin{fails: eviction.ErrUnavailable}, eviction.CanMeasure, memory, true, nil, false, "memory: b 7, a 1"},
		"a custom ranker decides":                   {&plugin{order: []string{"a", "b"}}, eviction.CanRank, memory, true, nil, false, "acme: a 1, b 7"},
		"one that refuses is followed by the next":  {&plugin{order: []string{"a", "b"}, refuses: eviction.ErrRefused}, eviction.CanRank, memory, true, nil, false, "memory: b 7, a 1"},
		"whom it leaves out comes after the others": {&plugin{order: []string{"a"}}, eviction.CanRank, memory, true, nil, false, "acme: a 1, b 7"},
		"or is safe":                             {&plugin{order: []string{"a"}}, eviction.CanRank, memory, true, nil, true, "acme: a 1"},
		"whom nobody measures the host measures": {nil, 0, broken, true, host{&plugin{uses: map[string]int64{"b": 3}}}, false, "memory: b 3, a ?"},
		"whom not even the host does goes last":  {nil, 0, broken, false, host{&plugin{}}, false, "evictd: a ?, b ?"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c.fallback, "a", "b")
			if c.custom != nil {
				c.custom.name = "acme"
				n.start(c.custom, c.does)
			}
			does := eviction.CanMeasure
			if c.ranks {
				does = both
			}
			n.start(&c.builtin, does)
			if _, got := n.choice(t, c.veto); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// When memory is short plugins are late, and by priority alone the wrong pod would go.
func TestTheLastFiguresStandWhereThereAreNoNewOnes(t *testing.T) {
	n := newNode(t, nil, "a", "b")
	memory := &plugin{name: "memory", uses: map[string]int64{"a": 1, "b": 7}}
	n.start(memory, eviction.CanMeasure|eviction.CanRank)
	n.choice(t, false)
	n.add("new")
	memory.fails = eviction.ErrUnavailable
	c, got := n.choice(t, false)
	if got != "memory: b 7, a 1, new ?" {
		t.Errorf("%q, want the order by the last figures", got)
	}
	if inputs := choose.Inputs(c.Snapshot.Stale); len(inputs) != 1 || inputs[0].Name != "figures of pods" || inputs[0].AgeSeconds <= 0 {
		t.Errorf("inputs %v, want the age of the figures", inputs)
	}
	n.chooser.Forget(eviction.MemoryAvailable)
	if _, got := n.choice(t, false); got != "memory: a ?, b ?, new ?" {
		t.Errorf("%q, want that figures of another unit are forgotten", got)
	}
}

func TestWhoMustNotGoIsNoCandidate(t *testing.T) {
	n := newNode(t, nil, "dying")
	n.ending["dying"] = true
	n.add("static").Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	n.add("stranger")
	n.pods[2].HasManifest = false
	c, got := n.choice(t, false)
	why := c.WhyNobody(func(uid string) bool { return n.ending[uid] })
	if got != "evictd: " || why != "1 without a manifest, 1 critical or static, 1 being evicted" {
		t.Errorf("%q, since %q", got, why)
	}
	n.add("plain")
	c, got = n.choice(t, false)
	if pod, _ := c.First(); got != "evictd: plain ?" || pod.Row.Name != "plain" {
		t.Errorf("%q, first %s, want plain alone", got, pod)
	}
}

// A pod that has become a victim while others were measured is no candidate any more: the
// record of the choice would have it go again.
func TestWhoIsDroppedIsNoCandidate(t *testing.T) {
	n := newNode(t, nil)
	n.add("first")
	n.add("second")
	c, _ := n.choice(t, false)
	first, _ := c.First()
	c.Drop(func(uid string) bool { return uid == first.Row.UID })
	if next, _ := c.First(); len(c.Candidates) != 1 || len(c.Order) != 1 || next.Row.UID == first.Row.UID {
		t.Errorf("candidates %v, order %v, want the other one alone", c.Candidates, c.Order)
	}
}
