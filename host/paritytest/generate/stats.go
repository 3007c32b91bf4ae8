package generate

import (
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

const mi = 1 << 20

// usage makes the figures of pods.
type usage struct {
	dice
	now time.Time
	// huge makes figures that no int64 holds.
	huge bool
	// forgetful makes a source leave out what volumes use.
	forgetful bool
}

// podStats returns usage of the active pods. Some pods are not in it, some figures are missing,
// and there are figures of pods and containers that do not exist.
func (u usage) podStats(pods []*v1.Pod) []statsapi.PodStats {
	var out []statsapi.PodStats
	for _, p := range pods {
		if u.in(7) {
			continue
		}
		out = append(out, u.statsOf(p))
		if u.in(1) { // the last one counts
			out = append(out, u.statsOf(p))
		}
	}
	if u.in(5) {
		out = append(out, statsapi.PodStats{PodRef: statsapi.PodReference{Name: "gone", Namespace: "default", UID: "uid-gone"}})
	}
	u.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (u usage) statsOf(p *v1.Pod) statsapi.PodStats {
	out := statsapi.PodStats{
		PodRef:       statsapi.PodReference{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
		Memory:       u.used(),
		ProcessStats: &statsapi.ProcessStats{ProcessCount: count(int64(pick(u.dice, 1, 1, 3, 3, 20, 500, u.IntN(2000))))},
	}
	containers := append(append([]v1.Container{}, p.Spec.Containers...), p.Spec.InitContainers...)
	if u.in(5) {
		containers = append(containers, v1.Container{Name: "debugger"})
	}
	u.Shuffle(len(containers), func(i, j int) { containers[i], containers[j] = containers[j], containers[i] })
	for _, c := range containers {
		if u.in(5) {
			continue
		}
		out.Containers = append(out.Containers, statsapi.ContainerStats{Name: c.Name, Memory: u.used(), Rootfs: u.disk(), Logs: u.disk()})
	}
	for _, v := range p.Spec.Volumes {
		if u.in(10) {
			continue
		}
		out.VolumeStats = append(out.VolumeStats, u.volume(v.Name))
		if u.in(3) {
			out.VolumeStats = append(out.VolumeStats, u.volume(v.Name))
		}
	}
	if u.in(80) {
		out.EphemeralStorage = u.disk()
	}
	if u.in(4) {
		out.ProcessStats = pick(u.dice, nil, &statsapi.ProcessStats{})
	}
	return out
}

func (u usage) volume(name string) statsapi.VolumeStats {
	v := statsapi.VolumeStats{Name: name, FsStats: statsapi.FsStats{UsedBytes: raw(u.bytes()), InodesUsed: raw(u.inodes())}}
	if u.in(5) {
		v.InodesUsed = nil
	}
	if u.forgetful && u.in(30) {
		v.UsedBytes = nil
	}
	return v
}

// used returns memory stats of a pod or container.
func (u usage) used() *statsapi.MemoryStats {
	switch u.IntN(30) {
	case 0:
		return nil
	case 1:
		return &statsapi.MemoryStats{UsageBytes: raw(u.bytes())}
	default:
		return &statsapi.MemoryStats{Time: metav1.NewTime(u.now), WorkingSetBytes: raw(u.bytes()), UsageBytes: raw(u.bytes())}
	}
}

func (u usage) disk() *statsapi.FsStats {
	switch u.IntN(30) {
	case 0:
		return nil
	case 1:
		return &statsapi.FsStats{UsedBytes: raw(u.bytes())}
	case 2:
		return &statsapi.FsStats{InodesUsed: raw(u.inodes())}
	default:
		return &statsapi.FsStats{UsedBytes: raw(u.bytes()), InodesUsed: raw(u.inodes())}
	}
}

// bytes are often those that pods request, or that others use.
func (u usage) bytes() int64 {
	if u.huge && u.in(10) {
		return pick[int64](u.dice, math.MinInt64, math.MinInt64+100*mi, -1, math.MaxInt64)
	}
	if u.in(60) {
		return pick[int64](u.dice, 0, 50*mi, 100*mi, 100*mi, 200*mi, 200*mi+1, 500*mi, gi, gi+1)
	}
	return int64(u.IntN(1500)) * mi
}

func (u usage) inodes() int64 {
	return pick(u.dice, 0, 100, 100, 5000, int64(u.IntN(100000)))
}

// raw is n as it is, a negative one as more than 2^63.
func raw(n int64) *uint64 {
	u := uint64(n) //nolint:gosec // the overflow is wanted
	return &u
}
