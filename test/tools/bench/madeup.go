package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// Made-up pods: the i-th pod is the same in cgroups, manifests, runtime and rows.

func podUID(i int) string      { return fmt.Sprintf("00000000-be4c-4000-8000-%012d", i) }
func podName(i int) string     { return fmt.Sprintf("pod-%04d", i) }
func containerID(i int) string { return fmt.Sprintf("%064x", 0xc0000+i) }

const (
	namespace     = "bench"
	containerName = "main"
)

// requestBytes makes some pods stay within their request and others exceed it.
func requestBytes(i int) int64 { return int64(i%7) << 20 }

// began is the creation time of the first pod.
var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func runtimePod(i int) fakecri.Pod {
	created := began.Add(time.Duration(i) * time.Second)
	return fakecri.Pod{
		UID: podUID(i), Namespace: namespace, Name: podName(i), CreatedAt: created,
		Containers: []fakecri.Container{{ID: containerID(i), Name: containerName, CreatedAt: created, Image: "bench", ImageRef: "bench"}},
	}
}

// podRows returns the pods as plugins receive them.
func podRows(n int) []eviction.Pod {
	rows := make([]eviction.Pod, n)
	for i := range rows {
		rows[i] = eviction.Pod{
			UID: podUID(i), Namespace: namespace, Name: podName(i),
			Priority: int32(i % 3 * 1000), QoSClass: eviction.Burstable,
			StartTime: began.Add(time.Duration(i) * time.Minute), OwnerKind: "ReplicaSet",
			MemoryRequestBytes: requestBytes(i),
			Containers:         []eviction.Container{{Name: containerName, ID: containerID(i)}},
		}
	}
	return rows
}

// candidates returns the pods with figures to rank them by, unsorted.
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

// writeManifests writes the manifests of pods. All are burstable; the first one has the lowest
// priority of those above their request, which makes it the victim.
func writeManifests(dir string, n int) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for i := range n {
		manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod",
"metadata":{"name":%q,"namespace":%q,"uid":%q,"labels":{"app":"bench"}},
"spec":{"priority":%d,"terminationGracePeriodSeconds":30,"containers":[{"name":%q,"image":"bench",
"resources":{"requests":{"memory":"%d","cpu":"10m"}}}]},
"status":{"phase":"Running","qosClass":"Burstable","startTime":"2026-01-01T00:00:00Z"}}
`, podName(i), namespace, podUID(i), i%3*1000, containerName, requestBytes(i)+1)
		if err := os.WriteFile(filepath.Join(dir, podName(i)+".json"), []byte(manifest), 0o644); err != nil {
			return err
		}
	}
	return nil
}
