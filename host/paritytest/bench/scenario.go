package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/paritytest/kubelet"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

// family is a plugin with the threshold that puts it under pressure.
type family struct{ name, signal, threshold string }

var families = []family{
	{"memory", "memory.available", "1Gi"},
	{"disk", "nodefs.available", "10Gi"},
	{"pid", "pid.available", "1000"},
}

func familyNamed(name string) family {
	return families[slices.IndexFunc(families, func(f family) bool { return f.name == name })]
}

// scenario returns a node with n pods whose threshold is met in each pass: its samples have no
// time, so they always count as new.
func scenario(f family, n int) (*replay.Scenario, error) {
	random := rand.New(rand.NewPCG(uint64(n), 7)) //nolint:gosec // both sides get the same
	s := &replay.Scenario{
		SchemaVersion: replay.SchemaVersion, Name: fmt.Sprintf("%s-%d", f.name, n), NodeName: "node-1",
		StartTime: metav1.NewTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)), FilesystemLayout: replay.LayoutShared,
		Config: replay.Config{
			Compatibility:                    kubelet.Minor,
			EvictionHard:                     map[string]string{f.signal: f.threshold},
			EvictionPressureTransitionPeriod: metav1.Duration{Duration: 5 * time.Minute},
		},
	}
	stats := statsapi.Summary{Node: nodeStats()}
	for i := range n {
		p := pod(random, i)
		s.Pods = append(s.Pods, p)
		stats.Pods = append(stats.Pods, podStats(random, p))
	}
	b, err := json.Marshal(stats)
	s.Steps = []replay.Step{{Summary: b}}
	return s, err
}

// nodeStats returns stats with little left of everything.
func nodeStats() statsapi.NodeStats {
	fs := &statsapi.FsStats{AvailableBytes: count(gi), CapacityBytes: count(100 * gi), InodesFree: count(6000000), Inodes: count(6553600)}
	limit, running := int64(32768), int64(32000)
	return statsapi.NodeStats{
		NodeName: "node-1",
		Memory:   &statsapi.MemoryStats{AvailableBytes: count(512 * mi), WorkingSetBytes: count(15 * gi)},
		Fs:       fs, Runtime: &statsapi.RuntimeStats{ImageFs: fs, ContainerFs: fs},
		Rlimit: &statsapi.RlimitStats{MaxPID: &limit, NumOfRunningProcesses: &running},
	}
}

func pod(random *rand.Rand, i int) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("workload-%d-7d4b9c6f5d-x%04d", i%40, i), Namespace: fmt.Sprintf("team-%d", i%12),
		UID:    types.UID(fmt.Sprintf("2c9f1a3e-5b7d-4f60-8a11-%012d", i)),
		Labels: map[string]string{"app": fmt.Sprintf("workload-%d", i%40), "pod-template-hash": "7d4b9c6f5d"},
	}}
	priority := []int32{0, 0, 0, 100, 1000}[random.IntN(5)]
	p.Spec.Priority = &priority
	for _, name := range []string{"main", "proxy"} {
		requests := v1.ResourceList{
			v1.ResourceCPU:              resource.MustParse("100m"),
			v1.ResourceMemory:           *resource.NewQuantity(int64(64+random.IntN(400))*mi, resource.BinarySI),
			v1.ResourceEphemeralStorage: resource.MustParse("256Mi"),
		}
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: requests}})
	}
	p.Spec.Volumes = []v1.Volume{
		{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "token", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{}}},
	}
	return p
}

func podStats(random *rand.Rand, p *v1.Pod) statsapi.PodStats {
	fs := func() *statsapi.FsStats {
		return &statsapi.FsStats{
			AvailableBytes: count(gi), CapacityBytes: count(100 * gi), UsedBytes: count(int64(random.IntN(1000 * mi))),
			InodesFree: count(6000000), Inodes: count(6553600), InodesUsed: count(int64(random.IntN(10000))),
		}
	}
	memory := func() *statsapi.MemoryStats {
		used := int64(random.IntN(600 * mi))
		return &statsapi.MemoryStats{UsageBytes: count(used + 10*mi), WorkingSetBytes: count(used), RSSBytes: count(used / 2), PageFaults: count(1000), MajorPageFaults: count(2)}
	}
	out := statsapi.PodStats{
		PodRef: statsapi.PodReference{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
		Memory: memory(), CPU: &statsapi.CPUStats{UsageNanoCores: count(1000000), UsageCoreNanoSeconds: count(123456789)},
		EphemeralStorage: fs(), ProcessStats: &statsapi.ProcessStats{ProcessCount: count(int64(random.IntN(200)))},
		VolumeStats: []statsapi.VolumeStats{{Name: "scratch", FsStats: *fs()}, {Name: "token", FsStats: *fs()}},
	}
	for _, c := range p.Spec.Containers {
		out.Containers = append(out.Containers, statsapi.ContainerStats{
			Name: c.Name, Memory: memory(), Rootfs: fs(), Logs: fs(),
			CPU: &statsapi.CPUStats{UsageNanoCores: count(500000), UsageCoreNanoSeconds: count(123456789)},
		})
	}
	return out
}

func count(n int64) *uint64 {
	u := uint64(n) //nolint:gosec // none is negative
	return &u
}
