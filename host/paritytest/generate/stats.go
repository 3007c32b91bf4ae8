package generate

import (
	"math"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

const mi = 1 << 20

// podStats returns usage of the active pods. Some pods are not in it, some figures are missing,
// and there are figures of pods and containers that do not exist.
func (m *maker) podStats() []statsapi.PodStats {
	var out []statsapi.PodStats
	for _, p := range m.pods {
		if m.in(7) {
			continue
		}
		out = append(out, m.statsOf(p))
		if m.in(1) { // the last one counts
			out = append(out, m.statsOf(p))
		}
	}
	if m.in(5) {
		out = append(out, statsapi.PodStats{PodRef: statsapi.PodReference{Name: "gone", Namespace: "default", UID: "uid-gone"}})
	}
	m.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (m *maker) statsOf(p *v1.Pod) statsapi.PodStats {
	out := statsapi.PodStats{
		PodRef:       statsapi.PodReference{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
		Memory:       m.used(),
		ProcessStats: &statsapi.ProcessStats{ProcessCount: count(int64(pick(m.dice, 1, 1, 3, 3, 20, 500, m.IntN(2000))))},
	}
	containers := append(append([]v1.Container{}, p.Spec.Containers...), p.Spec.InitContainers...)
	if m.in(5) {
		containers = append(containers, v1.Container{Name: "debugger"})
	}
	m.Shuffle(len(containers), func(i, j int) { containers[i], containers[j] = containers[j], containers[i] })
	for _, c := range containers {
		if m.in(5) {
			continue
		}
		out.Containers = append(out.Containers, statsapi.ContainerStats{Name: c.Name, Memory: m.used(), Rootfs: m.disk(), Logs: m.disk()})
	}
	for _, v := range p.Spec.Volumes {
		if m.in(10) {
			continue
		}
		out.VolumeStats = append(out.VolumeStats, m.volume(v.Name))
		if m.in(3) {
			out.VolumeStats = append(out.VolumeStats, m.volume(v.Name))
		}
	}
	if m.in(80) {
		out.EphemeralStorage = m.disk()
	}
	if m.in(4) {
		out.ProcessStats = pick(m.dice, nil, &statsapi.ProcessStats{})
	}
	return out
}

func (m *maker) volume(name string) statsapi.VolumeStats {
	v := statsapi.VolumeStats{Name: name, FsStats: statsapi.FsStats{UsedBytes: raw(m.bytes()), InodesUsed: raw(m.inodes())}}
	if m.in(5) {
		v.InodesUsed = nil
	}
	if m.forgetful && m.in(30) {
		v.UsedBytes = nil
	}
	return v
}

// used returns memory stats of a pod or container.
func (m *maker) used() *statsapi.MemoryStats {
	switch m.IntN(30) {
	case 0:
		return nil
	case 1:
		return &statsapi.MemoryStats{UsageBytes: raw(m.bytes())}
	default:
		return &statsapi.MemoryStats{Time: metav1.NewTime(m.now), WorkingSetBytes: raw(m.bytes()), UsageBytes: raw(m.bytes())}
	}
}

func (m *maker) disk() *statsapi.FsStats {
	switch m.IntN(30) {
	case 0:
		return nil
	case 1:
		return &statsapi.FsStats{UsedBytes: raw(m.bytes())}
	case 2:
		return &statsapi.FsStats{InodesUsed: raw(m.inodes())}
	default:
		return &statsapi.FsStats{UsedBytes: raw(m.bytes()), InodesUsed: raw(m.inodes())}
	}
}

// bytes are often those that pods request, or that others use.
func (m *maker) bytes() int64 {
	if m.huge && m.in(10) {
		return pick[int64](m.dice, math.MinInt64, math.MinInt64+100*mi, -1, math.MaxInt64)
	}
	if m.in(60) {
		return pick[int64](m.dice, 0, 50*mi, 100*mi, 100*mi, 200*mi, 200*mi+1, 500*mi, gi, gi+1)
	}
	return int64(m.IntN(1500)) * mi
}

func (m *maker) inodes() int64 {
	return pick(m.dice, 0, 100, 100, 5000, int64(m.IntN(100000)))
}

// raw is n as it is, a negative one as more than 2^63.
func raw(n int64) *uint64 {
	u := uint64(n) //nolint:gosec // the overflow is wanted
	return &u
}
