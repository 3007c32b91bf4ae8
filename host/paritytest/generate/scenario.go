package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/paritytest/kubelet"
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

	node *node
	pod  podMaker
	use  usage
	// pods are those that are active.
	pods []*v1.Pod
}

// Scenario makes the scenario of a seed.
func Scenario(seed int64) *replay.Scenario {
	d := dice{rand.New(rand.NewPCG(uint64(seed), 0))} //nolint:gosec // it must be repeatable
	m := &maker{
		dice: d,
		pod:  podMaker{dice: d, limits: pick(d, 0, 1, 1, 3, 25)},
		use:  usage{dice: d, now: start},
		s: &replay.Scenario{
			SchemaVersion: replay.SchemaVersion,
			Name:          fmt.Sprintf("parity-%d", seed),
			Seed:          seed,
			StartTime:     metav1.NewTime(start),
			NodeName:      "node-1",
		},
	}
	m.s.FilesystemLayout = pick(d, replay.LayoutShared, replay.LayoutImageFs, replay.LayoutContainerFs)
	m.s.Config = config(d)
	m.s.Config.Compatibility = kubelet.Minor
	m.quirks()
	m.node = newNode(d, &m.s.Config, m.s.FilesystemLayout)
	m.node.huge = m.use.huge
	for range m.podCount() {
		m.s.Pods = append(m.s.Pods, m.pod.next())
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
		c.FeatureGates = WithoutPodLevelResources()
	} else if kubelet.Minor >= "1.37" && m.in(6) {
		gate("PodLevelResourcesFixKubeletQOSClass", false)
	}
	if kubelet.Minor >= "1.37" && m.in(15) {
		gate("InPlacePodVerticalScalingMemoryBackedVolumes", m.in(80))
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
		m.use.huge = true
		m.s.Quirks = append(m.s.Quirks, QuirkHugeFigures)
	}
	if m.IntN(200) == 0 {
		m.use.forgetful = true
		m.s.Quirks = append(m.s.Quirks, QuirkPanic)
	}
}

// WithoutPodLevelResources returns the gates of a kubelet that has none. The others cannot be on
// then.
func WithoutPodLevelResources() map[string]bool {
	gates := map[string]bool{"PodLevelResources": false, "InPlacePodLevelResourcesVerticalScaling": false}
	if kubelet.Minor >= "1.37" {
		gates["PodLevelResourcesFixKubeletQOSClass"], gates["PodLevelResourcesFixDefaulting"] = false, false
	}
	return gates
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
