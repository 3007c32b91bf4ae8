package generate

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/replay"
)

const (
	memory            = "memory.available"
	allocatable       = "allocatableMemory.available"
	nodeFs            = "nodefs.available"
	nodeFsInodes      = "nodefs.inodesFree"
	imageFs           = "imagefs.available"
	imageFsInodes     = "imagefs.inodesFree"
	containerFs       = "containerfs.available"
	containerFsInodes = "containerfs.inodesFree"
	pids              = "pid.available"
)

// configurable are the signals that users set thresholds for, the same in the
// same order each time.
var configurable = []string{memory, nodeFs, nodeFsInodes, imageFs, imageFsInodes, pids}

// signals are all that a node reports.
var signals = []string{memory, allocatable, nodeFs, nodeFsInodes, imageFs, imageFsInodes, containerFs, containerFsInodes, pids}

func (m *maker) config() replay.Config {
	c := replay.Config{
		EvictionHard: map[string]string{}, EvictionSoft: map[string]string{},
		EvictionSoftGracePeriod: map[string]string{}, EvictionMinimumReclaim: map[string]string{},
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: pick[time.Duration](m.dice, 0, 10, 30, 30, 60, 300, 300) * time.Second},
		EvictionMaxPodGracePeriod:        pick[int32](m.dice, 0, 5, 30, 60, 60, 120, 600),
		LocalStorageCapacityIsolation:    !m.in(10),
	}
	if m.in(1) {
		c.EvictionMaxPodGracePeriod = -1
	}
	if m.in(60) {
		c.EnforceNodeAllocatable = pick(m.dice, []string{"pods"}, []string{"pods"}, []string{"system-reserved", "pods"}, []string{"none"})
	}
	if m.in(3) { // nothing configured
		return c
	}
	few := pick(m.dice, 15, 40, 40, 70)
	for _, signal := range configurable {
		m.threshold(&c, signal, few)
	}
	if m.in(3) {
		m.threshold(&c, allocatable, 100)
	}
	if m.in(1) {
		m.threshold(&c, pick(m.dice, containerFs, containerFsInodes), 100)
	}
	if m.in(4) {
		for range pick(m.dice, 1, 1, 2) {
			m.mistake(&c)
		}
	}
	return c
}

// threshold sets what there is for signal, in percent of the cases each.
func (m *maker) threshold(c *replay.Config, signal string, percent int) {
	if m.in(percent) {
		c.EvictionHard[signal] = m.value(signal, 1)
	}
	if m.in(percent) {
		c.EvictionSoft[signal] = m.value(signal, 2)
		c.EvictionSoftGracePeriod[signal] = pick(m.dice, "0s", "10s", "10s", "20s", "30s", "1m30s", "5m")
	}
	if m.in(percent / 2) {
		c.EvictionMinimumReclaim[signal] = m.minReclaim(signal)
	}
}

// value is about a twentieth of the capacity, times scale.
func (m *maker) value(signal string, scale int) string {
	if m.in(45) {
		return pick(m.dice, "5%", "10%", "6.5%", "12.5%", "10.1%", "7.77%", "1e1%", "10%%", "0%", "0.0%", "100%", "100.0%", "33.3%", "99.9%", "0x1p3%", "+5%")
	}
	capacity := capacities[signal]
	amount := capacity / 20 * int64(scale)
	switch signal {
	case memory, allocatable, nodeFs, imageFs, containerFs:
		return pick(m.dice, fmt.Sprintf("%d", amount), fmt.Sprintf("%dMi", amount>>20), fmt.Sprintf("%.2fGi", float64(amount)/(1<<30)), fmt.Sprintf("%dk", amount/1000))
	default:
		return pick(m.dice, fmt.Sprintf("%d", amount), fmt.Sprintf("%dk", amount/1000+1), fmt.Sprintf("%d", amount+int64(m.IntN(100))))
	}
}

func (m *maker) minReclaim(signal string) string {
	if m.in(35) {
		return pick(m.dice, "5%", "2.5%", "10%", "150%")
	}
	return pick(m.dice, "0", fmt.Sprint(capacities[signal]/40), fmt.Sprint(capacities[signal]/100), "1", "1500m")
}

// mistake makes the configuration one that is refused.
func (m *maker) mistake(c *replay.Config) {
	signal := pick(m.dice, configurable...)
	switch m.IntN(13) {
	case 0:
		c.EvictionHard["foo.available"] = "1Gi"
	case 1:
		c.EvictionHard[signal] = "-1"
	case 2:
		c.EvictionHard[signal] = "0"
	case 3:
		c.EvictionHard[signal] = "-5%"
	case 4:
		c.EvictionHard[signal] = "101%"
	case 5:
		c.EvictionSoft[signal] = "abc%"
	case 6:
		c.EvictionHard[signal] = "1Gx"
	case 7:
		c.EvictionSoft[signal] = "15%"
		delete(c.EvictionSoftGracePeriod, signal)
	case 8:
		c.EvictionSoftGracePeriod[signal] = "ten seconds"
	case 9:
		c.EvictionSoftGracePeriod[signal] = "-1m0s"
	case 10:
		c.EvictionMinimumReclaim[signal] = pick(m.dice, "0%", "-2%")
	case 11:
		c.EvictionMinimumReclaim[signal] = pick(m.dice, "-2", "1.Q")
	case 12:
		pick(m.dice, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim)["nodefs.unknown"] = "10s"
	}
}
