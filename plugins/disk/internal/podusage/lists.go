package podusage

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/shared/hang"
)

const (
	// callTimeout bounds a call of the runtime. A Measure waits less.
	callTimeout = 30 * time.Second
	// freshWait is the time that a Measure waits for new lists if it can do without.
	freshWait = 500 * time.Millisecond
)

// A listing holds the runtime's lists of the containers of one pod, or of all.
type listing struct {
	containers *answers.Input[[]*runtimeapi.Container]
	stats      *answers.Input[[]*runtimeapi.ContainerStats]
	asked      time.Time // guarded by lists.mu
}

// lists are the listings by pod UID, with "" for the node. It is safe for concurrent use.
type lists struct {
	runtime Runtime

	mu sync.Mutex
	of map[string]*listing
}

// listing returns the listing of a pod.
func (l *lists) listing(uid string) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.of[uid]
	if one == nil {
		var labels map[string]string
		if uid != "" {
			labels = map[string]string{labelPodUID: uid}
		}
		one = &listing{
			containers: answers.New("containers", callTimeout, func(ctx context.Context) ([]*runtimeapi.Container, error) {
				reply, err := l.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
				return reply.GetContainers(), refused(err)
			}),
			stats: answers.New("container stats", callTimeout, func(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
				reply, err := l.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: labels}})
				return reply.GetStats(), refused(err)
			}),
		}
		l.of[uid] = one
	}
	one.asked = time.Now()
	return one
}

// refused marks the error of a call that would fail again.
func refused(err error) error {
	if code := status.Code(err); code == codes.ResourceExhausted || code == codes.Unimplemented {
		return answers.Refused(err)
	}
	return err
}

// tidy forgets pods that were not asked about lately.
func (l *lists) tidy(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, one := range l.of {
		if uid != "" && now.Sub(one.asked) > forgetAfter {
			delete(l.of, uid)
		}
	}
}

// get returns the lists of containers and of their stats for a pod: new ones, or else the last. The
// last ones of the node count for a pod that was not asked about.
func (l *lists) get(ctx context.Context, uid string, soon bool) (containers answers.Answer[[]*runtimeapi.Container], stats answers.Answer[[]*runtimeapi.ContainerStats]) {
	one := l.listing(uid)
	var wait hang.Group
	wait.Go(func() { containers = get(ctx, one.containers, soon) })
	wait.Go(func() {
		ctx, cancel := mostOf(ctx) // the rest is for asking about single containers
		defer cancel()
		stats = get(ctx, one.stats, soon)
	})
	wait.Wait()
	if uid != "" && !containers.Known() {
		last := l.listing("").containers.Last()
		containers.Asked = last.Asked
		containers.Value = slices.DeleteFunc(slices.Clone(last.Value), func(c *runtimeapi.Container) bool { return c.GetLabels()[labelPodUID] != uid })
	}
	return containers, stats
}

// get waits for a new answer until ctx ends, but not long with soon, if there is an old one, or if a
// call is late.
func get[T any](ctx context.Context, of *answers.Input[T], soon bool) answers.Answer[T] {
	if soon || of.Last().Known() || of.Pending() > freshWait {
		soon, cancel := context.WithTimeout(ctx, freshWait)
		defer cancel()
		ctx = soon
	}
	return of.Get(ctx, time.Now())
}
