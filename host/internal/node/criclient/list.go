package criclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// callTimeout bounds a call. A caller waits less, but the next one begins no other call meanwhile.
	callTimeout = 30 * time.Second
	// listTimeout bounds the wait for lists without which nothing is known.
	listTimeout = 10 * time.Second
	// freshWait is the time that Pods waits for new lists if it can do without. A busy runtime takes
	// some 100 ms.
	freshWait = 500 * time.Millisecond
	// preparedFor is the time for which lists that were asked for in advance are new.
	preparedFor = 500 * time.Millisecond
)

// ErrIncomplete is why new lists count as old.
var ErrIncomplete = errors.New("containers: the list lacks those")

// A Listing holds the runtime's sandboxes and containers by pod. Others are left out.
type Listing struct {
	Pods []*Pod
	// Stale are the lists that are not new, nil if both are. A running pod may be missing then, if
	// its cgroup is not found either.
	Stale []pods.Stale
	// Check compares new lists with the cgroups, which are being read, and corrects them if they
	// differ. It is nil if that is done.
	Check func(ctx context.Context) (corrected Listing, differs bool)
	// Asked is when the lists were asked for, if they are new.
	Asked time.Time

	ended int // pods whose cgroup is gone
}

// Partial is why there may be more pods, nil if there are not.
func (l Listing) Partial() error {
	var errs []error
	for _, s := range l.Stale {
		errs = append(errs, s.Err)
	}
	return distinct(errs)
}

// A Lister lists the sandboxes and containers of a runtime. It is safe for concurrent use.
type Lister struct {
	sandboxes  *answers.Input[[]*runtimeapi.PodSandbox]
	containers *answers.Input[[]*runtimeapi.Container]
	// found holds the pods whose cgroup was found.
	found found
	// prepared is when lists were asked for in advance that no Pods has used, nil for none.
	prepared atomic.Pointer[time.Time]
}

// Cgroups returns the pods that have a cgroup, by uid, each with a function that looks for its
// processes: PodCgroups of nodefs.Naming.
type Cgroups func() (map[string]func() nodefs.PodProcesses, error)

// NewLister returns a Lister. The lists are corrected by cgroups, unless that is nil.
func NewLister(client runtimeapi.RuntimeServiceClient, cgroups Cgroups) *Lister {
	l := &Lister{found: found{cgroups: cgroups}}
	l.sandboxes = answers.New("pod sandboxes", callTimeout, func(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
		reply, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
		for _, s := range reply.GetItems() {
			s.Labels, s.Annotations = kept(s.GetLabels()), kept(s.GetAnnotations())
			if s.GetLabels()[labelUID] == s.GetMetadata().GetUid() {
				s.Labels = nil // the list is held, and this says nothing more
			}
		}
		return once(reply.GetItems()), refused(err)
	})
	l.containers = answers.New("containers", callTimeout, func(ctx context.Context) ([]*runtimeapi.Container, error) {
		reply, err := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		for _, c := range reply.GetContainers() {
			c.Labels, c.Annotations = kept(c.GetLabels()), kept(c.GetAnnotations())
			c.Image, c.ImageRef, c.ImageId = nil, "", ""
		}
		return once(reply.GetContainers()), refused(err)
	})
	return l
}

// Close cancels calls under way.
func (l *Lister) Close() {
	l.sandboxes.Close()
	l.containers.Close()
}

// Since returns the pods in lists that were asked for at since or later. The lists contain all
// annotations, which the author of a pod can make as large as the API server accepts, and
// containerd sends at most 16 MiB: a list that is too large is replaced by what is known without.
func (l *Lister) Since(ctx context.Context, since time.Time) ([]*Pod, error) {
	names := l.found.names(ctx)
	sandboxes, containers := l.get(ctx, since)
	if err := distinct([]error{missing(sandboxes.Err), missing(containers.Err)}); err != nil {
		return nil, err
	}
	return l.join(ctx, sandboxes, containers, names).Pods, nil
}

// Pod returns what the lists of Since have of a pod. They are not filtered by label, which would miss a
// sandbox made without labels.
func (l *Lister) Pod(ctx context.Context, uid string, since time.Time) (*Pod, error) {
	listed, err := l.Since(ctx, since)
	for _, p := range listed {
		if p.UID == uid {
			return p, nil
		}
	}
	return &Pod{UID: uid}, err
}

// Ended reports whether a pod whose cgroup was found has no process any more.
func (l *Lister) Ended(ctx context.Context, uid string) bool { return l.found.ended(ctx, uid) }

// missing returns err unless the list is only too large.
func missing(err error) error {
	if tooLarge(err) {
		return nil
	}
	return err
}

// Prepare asks for new lists. Pods uses them once if it is called in the moments after: it finds pods that
// have started since by their cgroups. Without cgroups nothing is prepared.
func (l *Lister) Prepare(ctx context.Context) {
	if l.found.cgroups == nil {
		return
	}
	now := time.Now()
	l.get(ctx, now)
	l.prepared.Store(&now)
}

// Pods returns the pods in new lists, for which Check adds pods that are not listed and whose cgroup
// has processes, and leaves out those whose cgroup is gone. If new lists do not come soon or not at
// all, it returns those of the last ones, corrected so. The error says why nothing is known.
func (l *Lister) Pods(ctx context.Context) (Listing, error) {
	ctx, over := context.WithTimeout(ctx, listTimeout)
	defer over()
	now := time.Now()
	if p := l.prepared.Swap(nil); p != nil && now.Sub(*p) < preparedFor {
		now = *p
	}
	soon, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	sandboxes, containers := l.get(soon, now)
	names := l.found.names(context.WithoutCancel(ctx))
	if sandboxes.Err == nil && containers.Err == nil && l.found.cgroups != nil {
		return Listing{Pods: byPod(sandboxes.Value, containers.Value), Asked: now, Check: func(ctx context.Context) (Listing, bool) {
			corrected := l.join(ctx, sandboxes, containers, names)
			return corrected, corrected.Stale != nil || corrected.ended > 0
		}}, nil
	}
	listing := l.join(ctx, sandboxes, containers, names)
	if listing.Stale != nil && (len(listing.Pods) == 0 || l.found.cgroups == nil) {
		names = l.found.names(ctx)
		sandboxes, containers = l.get(ctx, now)
		listing = l.join(ctx, sandboxes, containers, names)
	}
	if len(listing.Pods) == 0 && (!sandboxes.Known() || !containers.Known()) {
		return Listing{}, listing.Partial()
	}
	listing.Asked = now
	return listing, nil
}

func (l *Lister) get(ctx context.Context, since time.Time) (sandboxes answers.Answer[[]*runtimeapi.PodSandbox], containers answers.Answer[[]*runtimeapi.Container]) {
	var asking sync.WaitGroup
	asking.Go(func() { sandboxes = l.sandboxes.Get(ctx, since) })
	containers = l.containers.Get(ctx, since)
	asking.Wait()
	return sandboxes, containers
}

// join joins lists, and corrects them.
func (l *Lister) join(ctx context.Context, sandboxes answers.Answer[[]*runtimeapi.PodSandbox], containers answers.Answer[[]*runtimeapi.Container], names func() (podCgroups, error)) Listing {
	out := Listing{Pods: byPod(sandboxes.Value, containers.Value)}
	if sandboxes.Err != nil {
		out.Stale = append(out.Stale, staleness("pod sandboxes", sandboxes))
	}
	if containers.Err != nil {
		out.Stale = append(out.Stale, staleness("containers", containers))
	}
	for _, p := range out.Pods {
		p.SandboxUnknown = sandboxes.Err != nil && len(p.Sandboxes) == 0
	}
	var lacking int
	if out.Pods, lacking, out.ended = l.found.correct(ctx, out.Pods, out.Stale != nil, names); lacking > 0 && out.Stale == nil {
		out.Stale = []pods.Stale{{Input: "containers", Err: fmt.Errorf("%w of %d pods with processes", ErrIncomplete, lacking)}}
	}
	return out
}

func staleness[T any](input string, a answers.Answer[T]) pods.Stale {
	out := pods.Stale{Input: input, Err: a.Err}
	if a.Known() {
		out.Age = time.Since(a.Asked)
	}
	return out
}

// once returns items without those that have no id or that of an earlier one.
func once[T interface{ GetId() string }](items []T) []T {
	seen := make(map[string]bool, len(items))
	out := items[:0]
	for _, item := range items {
		if id := item.GetId(); id != "" && !seen[id] {
			seen[id] = true
			out = append(out, item)
		}
	}
	return out
}

// kept returns evictd's own keys: those for plugins come from the API server or manifests.
func kept(all map[string]string) map[string]string { return (*pods.Wanted)(nil).Kept(all) }

// refused marks the error of a list that is too large.
func refused(err error) error {
	if tooLarge(err) {
		return answers.Refused(err)
	}
	return err
}

// tooLarge reports whether a list exceeds the limit of the runtime, or of this client.
func tooLarge(err error) bool { return status.Code(err) == codes.ResourceExhausted }

// distinct joins errors that have different causes: an unreachable runtime is reported once.
func distinct(errs []error) error {
	var out []error
	seen := map[string]bool{}
	for _, err := range errs {
		if cause := fmt.Sprint(errors.Unwrap(err)); err != nil && !seen[cause] {
			seen[cause] = true
			out = append(out, err)
		}
	}
	return errors.Join(out...)
}
