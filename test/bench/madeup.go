package main

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// Made-up pods: the i-th is the same in cgroups, manifests, runtime and rows.

func podUID(i int) string      { return fmt.Sprintf("00000000-be4c-4000-8000-%012d", i) }
func podName(i int) string     { return fmt.Sprintf("pod-%04d", i) }
func containerID(i int) string { return fmt.Sprintf("%064x", 0xc0000+i) }
func sandboxID(i int) string   { return fmt.Sprintf("%064x", 0x50000+i) }

const namespace = "bench"

// requestBytes spreads pods over being within and above their request.
func requestBytes(i int) int64 { return int64(i%7) << 20 }

// podRows are the pods as plugins see them.
func podRows(n int) []eviction.Pod {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rows := make([]eviction.Pod, n)
	for i := range rows {
		rows[i] = eviction.Pod{
			UID: podUID(i), Namespace: namespace, Name: podName(i),
			Priority: int32(i % 3 * 1000), QoSClass: eviction.Burstable,
			StartTime: began.Add(time.Duration(i) * time.Minute), OwnerKind: "ReplicaSet",
			MemoryRequestBytes: requestBytes(i),
			Containers:         []eviction.Container{{Name: "main", ID: containerID(i)}},
		}
	}
	return rows
}

// candidates are the pods with figures to rank them by, in no order.
func candidates(n int) []eviction.Candidate {
	out := make([]eviction.Candidate, n)
	for i, pod := range podRows(n) {
		used := int64(i*7919%1009) << 14
		out[i] = eviction.Candidate{Pod: pod, Measurement: eviction.Measurement{
			UID: pod.UID, State: eviction.Measured, WorkingSetBytes: eviction.Some(used),
			Usage: []eviction.SignalUsage{{Signal: eviction.MemoryAvailable, Value: used}},
			Time:  pod.StartTime.Add(time.Hour),
		}}
	}
	return out
}
