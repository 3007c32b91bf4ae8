package host

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// A program adapts an embedding program to the loop: its pods and its kills.
type program struct {
	kill  KillPodFunc
	now   func() time.Time
	rules pods.Rules
	// active is nil until the manager is started, which sets cleanedUp before.
	active    atomic.Pointer[ActivePodsFunc]
	cleanedUp PodCleanedUpFunc

	mu sync.Mutex
	// listed and snapshot cache the last listing. A changed pod is a new object.
	listed   []*v1.Pod
	snapshot pods.Snapshot
}

// Active implements pods.Source.
func (p *program) Active(context.Context) (pods.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	active := (*p.active.Load())()
	if slices.Equal(active, p.listed) {
		return p.snapshot, nil
	}
	known := make(map[*v1.Pod]*pods.Pod, len(p.listed))
	for i, pod := range p.listed {
		known[pod] = &p.snapshot.Pods[i]
	}
	s := pods.Snapshot{Pods: make([]pods.Pod, len(active))}
	for i, pod := range active {
		if k, ok := known[pod]; ok {
			s.Pods[i] = *k
		} else {
			s.Pods[i] = pods.Pod{API: pod, Row: p.rules.Row(pod, containers(pod)), HasManifest: true}
		}
	}
	p.listed, p.snapshot = slices.Clone(active), s
	return s, nil
}

// containers returns the running containers in the status of pod, with their ids without the
// scheme.
func containers(pod *v1.Pod) []eviction.Container {
	var all []eviction.Container
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if _, id, ok := strings.Cut(statuses[i].ContainerID, "://"); ok && statuses[i].State.Running != nil {
				all = append(all, eviction.Container{Name: statuses[i].Name, ID: id})
			}
		}
	}
	return all
}

// Kill implements victim.Killer.
func (p *program) Kill(_ context.Context, v victim.Victim) error {
	pod, grace := v.Pod.API, v.GraceOverrideSeconds
	return p.kill(pod, true, &grace, func(status *v1.PodStatus) {
		victim.SetEvicted(status, pod.Generation, v.Message, !v.Limit, p.now())
	})
}

// Finished implements victim.Killer.
func (p *program) Finished(_ context.Context, v victim.Victim) (bool, error) {
	return p.cleanedUp(v.Pod.API), nil
}

// CleanedUp implements victim.Killer: the program's function covers volumes too.
func (p *program) CleanedUp(ctx context.Context, v victim.Victim) (bool, error) {
	return p.Finished(ctx, v)
}

// noJournal saves nothing: an embedding program keeps its own state.
type noJournal struct{}

// SaveKill implements victim.Journal.
func (noJournal) SaveKill(victim.Kill) error { return nil }

// RemoveKill implements victim.Journal.
func (noJournal) RemoveKill(string) error { return nil }

// SaveConditions implements loop.Journal.
func (noJournal) SaveConditions(map[eviction.Condition]time.Time) error { return nil }
