package podusage

import (
	"context"
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

// lists are the runtime's lists of the node's containers and of their stats.
type lists struct {
	runtime    Runtime
	containers *answers.Input[[]*runtimeapi.Container]
	stats      *answers.Input[[]*runtimeapi.ContainerStats]
}

func newLists(runtime Runtime) *lists {
	l := &lists{runtime: runtime}
	l.containers = answers.New("containers", callTimeout, func(ctx context.Context) ([]*runtimeapi.Container, error) {
		reply, err := l.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		return reply.GetContainers(), refused(err)
	})
	l.stats = answers.New("container stats", callTimeout, func(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
		reply, err := l.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
		for i, s := range reply.GetStats() { // what is not used would be kept
			reply.Stats[i] = &runtimeapi.ContainerStats{Attributes: &runtimeapi.ContainerAttributes{Id: s.GetAttributes().GetId()}, WritableLayer: s.GetWritableLayer()}
		}
		return reply.GetStats(), refused(err)
	})
	return l
}

// refused marks the error of a call that would fail again.
func refused(err error) error {
	if code := status.Code(err); code == codes.ResourceExhausted || code == codes.Unimplemented {
		return answers.Refused(err)
	}
	return err
}

// get returns new lists, or the last ones.
func (l *lists) get(ctx context.Context, soon bool) (containers answers.Answer[[]*runtimeapi.Container], stats answers.Answer[[]*runtimeapi.ContainerStats]) {
	var wait hang.Group
	wait.Go(func() { containers = get(ctx, l.containers, soon) })
	wait.Go(func() {
		ctx, cancel := mostOf(ctx) // the rest is for asking about single containers
		defer cancel()
		stats = get(ctx, l.stats, soon)
	})
	wait.Wait()
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
