// Package sample makes up pods, which no machine has, and requests about them.
package sample

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// epoch is the start time of the made-up pods.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Pods makes up n pods, which this machine does not have. They differ in everything that
// a ranking may use.
func Pods(t *check.Target, n int) []eviction.Pod {
	classes := [...]eviction.QoSClass{eviction.BestEffort, eviction.Burstable, eviction.Guaranteed}
	owners := [...]string{"ReplicaSet", "", "DaemonSet", "Job"}
	pods := make([]eviction.Pod, n)
	for i := range pods {
		p := &pods[i]
		*p = eviction.Pod{
			UID:       fmt.Sprintf("c0f0aaaa-0000-4000-8000-%012d", i),
			Namespace: "conformance", Name: fmt.Sprintf("pod-%d", i),
			Priority: int32(i*7919%13) * 100, QoSClass: classes[i%len(classes)], OwnerKind: owners[i%len(owners)],
			StartTime:                    epoch.Add(time.Duration(i*7907%1009) * time.Minute),
			MemoryRequestBytes:           int64(i*6101%97) << 20,
			EphemeralStorageRequestBytes: int64(i*6007%89) << 20,
			Volumes:                      []eviction.Volume{{Name: "scratch", Kind: "emptyDir", CountsForRanking: true}},
			Containers:                   []eviction.Container{{Name: "main", ID: fmt.Sprintf("%064x", i+1)}},
			Labels:                       map[string]string{}, Annotations: map[string]string{},
		}
		for k, key := range t.Plugin.WantLabels {
			p.Labels[key] = fmt.Sprint((i*31 + k) % 17)
		}
		for k, key := range t.Plugin.WantAnnotations {
			p.Annotations[key] = fmt.Sprint((i*37 + k) % 19)
		}
	}
	return pods
}

// Candidates makes up n pods with figures for every signal.
func Candidates(t *check.Target, n int) []eviction.Candidate {
	out := make([]eviction.Candidate, n)
	for i, pod := range Pods(t, n) {
		used := int64(i*5003%211)<<20 + 1
		m := eviction.Measurement{
			UID: pod.UID, State: eviction.Measured, Time: epoch.Add(24 * time.Hour),
			WorkingSetBytes: eviction.Some(used), Processes: eviction.Some(int64(i%23) + 1), EphemeralStorageUsedBytes: eviction.Some(used),
		}
		m.Usage = Usage(t, used)
		out[i] = eviction.Candidate{Pod: pod, Measurement: m}
	}
	return out
}

// Usage returns the same figure for every signal.
func Usage(t *check.Target, v int64) []eviction.SignalUsage {
	var out []eviction.SignalUsage
	for _, spec := range t.Plugin.Signals {
		out = append(out, eviction.SignalUsage{Signal: spec.Signal, Value: v})
	}
	return out
}

// RankRequest returns a request like that of a pass under pressure.
func RankRequest(t *check.Target, signal eviction.Signal, candidates []eviction.Candidate) eviction.RankRequest {
	builtin, _ := eviction.Builtin(signal)
	definition := builtin.Definition
	for _, spec := range t.Plugin.Signals {
		if spec.Signal == signal && spec.Definition != nil {
			definition = *spec.Definition
		}
	}
	return eviction.RankRequest{
		Pass: 1, Signal: signal, Unit: definition.Unit, Threshold: eviction.Threshold{Amount: 100 << 20},
		Available: 60 << 20, Capacity: 8 << 30, Shortfall: 40 << 20, Hard: true, Candidates: candidates,
	}
}

// PodMessage encodes a pod as the host does.
func PodMessage(t *check.Target, p *eviction.Pod) check.Message {
	return wire.EncodePod(p, t.Plugin.WantLabels, t.Plugin.WantAnnotations)
}
