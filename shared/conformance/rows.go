package conformance

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// epoch is the start time of the made-up pods.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pods makes up n pods, which this machine does not have. They differ in all that
// a ranking may look at.
func (t *target) pods(n int) []eviction.Pod {
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
		for k, key := range t.plugin.WantLabels {
			p.Labels[key] = fmt.Sprint((i*31 + k) % 17)
		}
		for k, key := range t.plugin.WantAnnotations {
			p.Annotations[key] = fmt.Sprint((i*37 + k) % 19)
		}
	}
	return pods
}

// candidates makes up n pods with figures for every signal.
func (t *target) candidates(n int) []eviction.Candidate {
	out := make([]eviction.Candidate, n)
	for i, pod := range t.pods(n) {
		used := int64(i*5003%211)<<20 + 1
		m := eviction.Measurement{
			UID: pod.UID, State: eviction.Measured, Time: epoch.Add(24 * time.Hour),
			WorkingSetBytes: eviction.Some(used), Processes: eviction.Some(int64(i%23) + 1), EphemeralStorageUsedBytes: eviction.Some(used),
		}
		for _, spec := range t.plugin.Signals {
			m.Usage = append(m.Usage, eviction.SignalUsage{Signal: spec.Signal, Value: used})
		}
		out[i] = eviction.Candidate{Pod: pod, Measurement: m}
	}
	return out
}

// rankRequest is a request as in a pass under pressure.
func (t *target) rankRequest(signal eviction.Signal, candidates []eviction.Candidate) eviction.RankRequest {
	builtin, _ := eviction.Builtin(signal)
	definition := builtin.Definition
	for _, spec := range t.plugin.Signals {
		if spec.Signal == signal && spec.Definition != nil {
			definition = *spec.Definition
		}
	}
	return eviction.RankRequest{
		Pass: 1, Signal: signal, Unit: definition.Unit, Threshold: eviction.Threshold{Amount: 100 << 20},
		Available: 60 << 20, Capacity: 8 << 30, Shortfall: 40 << 20, Hard: true, Candidates: candidates,
	}
}

// podMessage is a pod as the host sends it.
func (t *target) podMessage(p *eviction.Pod) message {
	return wire.EncodePod(p, t.plugin.WantLabels, t.plugin.WantAnnotations)
}

// candidateMessage is a candidate by a newer host, with the measurement state given.
func (t *target) candidateMessage(c *eviction.Candidate, state int64) message {
	measured := message(wire.EncodeMeasurement(&c.Measurement)).number(2, state) // the last one counts
	return message{}.bytes(1, t.podMessage(&c.Pod).newer()).bytes(2, measured.newer()).newer()
}

// measureMessage is a request for all signals that are offered for it.
func (t *target) measureMessage(detail int64, pods []eviction.Pod) message {
	m := message{}.number(1, 1).number(2, 1).number(3, detail)
	for _, signal := range t.offering(eviction.CanMeasure) {
		m = m.text(4, string(signal))
	}
	for i := range pods {
		m = m.bytes(5, t.podMessage(&pods[i]))
	}
	return m
}
