package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/replay"
)

// The quirks of the kubelet that scenarios can have.
const (
	QuirkPanic           = "panic"
	QuirkUserContainerFs = "user-containerfs"
	QuirkSplitGateOff    = "separate-disk-gc-off"
	QuirkHugeFigures     = "huge-figures"
	QuirkNotANumber      = "not-a-number"
	QuirkNegativeGrace   = "negative-max-pod-grace"
)

// start of scenarios, in whole seconds as figures are stamped.
var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// maker makes one scenario.
type maker struct {
	dice
	s *replay.Scenario

	now  time.Time
	node *node
	// pods are those that are active, born counts all there ever were.
	pods []*v1.Pod
	born int
	// limits is the percentage of containers and volumes with limits for local storage. Where
	// pods go for them none goes for pressure.
	limits int
	// huge makes figures that no int64 holds.
	huge bool
	// forgetful makes a source leave out what volumes use.
	forgetful bool
}

// Scenario makes the scenario of a seed.
func Scenario(seed int64) *replay.Scenario {
	m := &maker{
		dice: dice{rand.New(rand.NewPCG(uint64(seed), 0))}, //nolint:gosec // it must be repeatable
		now:  start,
		s: &replay.Scenario{
			SchemaVersion: replay.SchemaVersion,
			Name:          fmt.Sprintf("parity-%d", seed),
			Seed:          seed,
			StartTime:     metav1.NewTime(start),
			NodeName:      "node-1",
		},
	}
	m.limits = pick(m.dice, 0, 1, 1, 3, 25)
	m.s.FilesystemLayout = pick(m.dice, replay.LayoutShared, replay.LayoutImageFs, replay.LayoutContainerFs)
	m.s.Config = m.config()
	m.quirks()
	m.node = newNode(m.dice, &m.s.Config, m.s.FilesystemLayout)
	m.node.huge = m.huge
	for range m.podCount() {
		m.s.Pods = append(m.s.Pods, m.pod())
	}
	m.pods = append(m.pods, m.s.Pods...)
	for i := range m.between(3, 18) {
		m.s.Steps = append(m.s.Steps, m.step(i))
	}
	return m.s
}

func (m *maker) podCount() int {
	switch n := m.IntN(100); {
	case n < 3:
		return 0
	case n < 75:
		return m.between(1, 10)
	case n < 98:
		return m.between(11, 30)
	default:
		return m.between(31, 120)
	}
}

func (m *maker) quirks() {
	c := &m.s.Config
	gate := func(name string, on bool) {
		if c.FeatureGates == nil {
			c.FeatureGates = map[string]bool{}
		}
		c.FeatureGates[name] = on
	}
	if m.in(4) {
		gate("PodLevelResources", false)
		gate("InPlacePodLevelResourcesVerticalScaling", false) // it cannot be on without
	}
	if m.in(4) {
		gate("TaintTolerationComparisonOperators", true)
	}
	for signal := range c.EvictionHard {
		m.userContainerFs(signal)
	}
	for signal := range c.EvictionSoft {
		m.userContainerFs(signal)
	}
	if m.IntN(200) == 0 {
		gate("KubeletSeparateDiskGC", false)
		if m.s.FilesystemLayout == replay.LayoutContainerFs {
			m.s.Quirks = append(m.s.Quirks, QuirkSplitGateOff)
		}
	}
	if m.IntN(200) == 0 {
		c.EvictionHard[memory] = "NaN%"
		m.s.Quirks = append(m.s.Quirks, QuirkNotANumber)
	}
	if c.EvictionMaxPodGracePeriod < 0 {
		m.s.Quirks = append(m.s.Quirks, QuirkNegativeGrace)
	}
	if m.IntN(100) == 0 {
		m.huge = true
		m.s.Quirks = append(m.s.Quirks, QuirkHugeFigures)
	}
	if m.IntN(200) == 0 {
		m.forgetful = true
		m.s.Quirks = append(m.s.Quirks, QuirkPanic)
	}
}

func (m *maker) userContainerFs(signal string) {
	if signal != containerFs && signal != containerFsInodes {
		return
	}
	if slices.Contains(m.s.Quirks, QuirkUserContainerFs) {
		return
	}
	m.s.Quirks = append(m.s.Quirks, QuirkUserContainerFs)
}
