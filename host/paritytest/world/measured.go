package world

import "time"

// A Measured is a world that was played in a real cluster, by a kubelet alone and with evictd beside
// it (test/suites/kubernetes/replacements_test.go), and how many pods each evicted in Measured.Span.
type Measured struct {
	Name            string
	World           *World
	Span            time.Duration
	Kubelet, Evictd int
}

// InCluster returns the worlds that were played in a cluster with the kubelet v1.37.2. Pods are full
// at once, and all of them use 200 MiB too much.
func InCluster() []Measured {
	of := func(kind kind, replicas int, use float64, tolerates bool) *World {
		return &World{
			Delay: Tick, starts: 2 * Tick, nodes: []machine{{daemon: capacity - Threshold - 1000}},
			workloads: []workload{{name: "hog", kind: kind, replicas: replicas, tolerates: tolerates, request: 64, base: use, most: use, ends: Tick, part: 1}},
		}
	}
	return []Measured{
		{"Deployment of 2", of(replicaSet, 2, 600, false), time.Minute, 1, 1},
		{"StatefulSet of 2", of(statefulSet, 2, 600, false), 2 * time.Minute, 1, 1},
		{"Job of 2", of(job, 2, 600, false), 2 * time.Minute, 1, 1},
		{"2 bare pods", of(bare, 2, 600, false), 2 * time.Minute, 1, 1},
		{"DaemonSet", of(daemonSet, 1, 1200, false), time.Minute, 6, 1},
		{"DaemonSet that tolerates all", of(daemonSet, 1, 1200, true), 2 * time.Minute, 8, 7},
	}
}

// Within returns the number of pods lost before the given time.
func (c *Cluster) Within(span time.Duration) (lost int) {
	for _, at := range c.Lost {
		if at < span {
			lost++
		}
	}
	return lost
}
