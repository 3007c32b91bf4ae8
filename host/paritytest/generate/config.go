package generate

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/why/replay"
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

func config(d dice) replay.Config {
	c := replay.Config{
		EvictionHard: map[string]string{}, EvictionSoft: map[string]string{},
		EvictionSoftGracePeriod: map[string]string{}, EvictionMinimumReclaim: map[string]string{},
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: pick[time.Duration](d, 0, 10, 30, 30, 60, 300, 300) * time.Second},
		EvictionMaxPodGracePeriod:        pick[int32](d, 0, 5, 30, 60, 60, 120, 600),
		LocalStorageCapacityIsolation:    !d.in(10),
	}
	if d.in(1) {
		c.EvictionMaxPodGracePeriod = -1
	}
	if d.in(60) {
		c.EnforceNodeAllocatable = pick(d, []string{"pods"}, []string{"pods"}, []string{"system-reserved", "pods"}, []string{"none"})
	}
	if d.in(3) { // nothing configured
		return c
	}
	few := pick(d, 15, 40, 40, 70)
	for _, signal := range configurable {
		threshold(d, &c, signal, few)
	}
	if d.in(3) {
		threshold(d, &c, allocatable, 100)
	}
	if d.in(1) {
		threshold(d, &c, pick(d, containerFs, containerFsInodes), 100)
	}
	if d.in(4) {
		for range pick(d, 1, 1, 2) {
			mistake(d, &c)
		}
	}
	return c
}

// threshold sets what there is for signal, in percent of the cases each.
func threshold(d dice, c *replay.Config, signal string, percent int) {
	if d.in(percent) {
		c.EvictionHard[signal] = value(d, signal, 1)
	}
	if d.in(percent) {
		c.EvictionSoft[signal] = value(d, signal, 2)
		c.EvictionSoftGracePeriod[signal] = pick(d, "0s", "10s", "10s", "20s", "30s", "1m30s", "5m")
	}
	if d.in(percent / 2) {
		c.EvictionMinimumReclaim[signal] = minReclaim(d, signal)
	}
}

// value is about a twentieth of the capacity, times scale.
func value(d dice, signal string, scale int) string {
	if d.in(45) {
		return pick(d, "5%", "10%", "6.5%", "12.5%", "10.1%", "7.77%", "1e1%", "10%%", "0%", "0.0%", "100%", "100.0%", "33.3%", "99.9%", "0x1p3%", "+5%")
	}
	capacity := capacities[signal]
	amount := capacity / 20 * int64(scale)
	switch signal {
	case memory, allocatable, nodeFs, imageFs, containerFs:
		return pick(d, fmt.Sprintf("%d", amount), fmt.Sprintf("%dMi", amount>>20), fmt.Sprintf("%.2fGi", float64(amount)/(1<<30)), fmt.Sprintf("%dk", amount/1000))
	default:
		return pick(d, fmt.Sprintf("%d", amount), fmt.Sprintf("%dk", amount/1000+1), fmt.Sprintf("%d", amount+int64(d.IntN(100))))
	}
}

func minReclaim(d dice, signal string) string {
	if d.in(35) {
		return pick(d, "5%", "2.5%", "10%", "150%")
	}
	return pick(d, "0", fmt.Sprint(capacities[signal]/40), fmt.Sprint(capacities[signal]/100), "1", "1500m")
}

// mistake makes the configuration one that is refused.
func mistake(d dice, c *replay.Config) {
	signal := pick(d, configurable...)
	switch d.IntN(13) {
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
		c.EvictionMinimumReclaim[signal] = pick(d, "0%", "-2%")
	case 11:
		c.EvictionMinimumReclaim[signal] = pick(d, "-2", "1.Q")
	case 12:
		pick(d, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim)["nodefs.unknown"] = "10s"
	}
}
