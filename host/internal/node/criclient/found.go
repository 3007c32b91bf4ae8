package criclient

import (
	"context"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// podCgroups has the pods that have a cgroup, by uid, each with a function that looks for processes.
type podCgroups = map[string]func() nodefs.PodProcesses

// found remembers the pods whose cgroup was found. It is safe for concurrent use.
type found struct {
	cgroups Cgroups
	hanging hang.Left

	mu sync.Mutex
	// last are those of the last listing, gone the pods whose cgroup was there before, with when they were
	// last listed or found.
	last podCgroups
	gone map[string]time.Time
}

// goneFor is the time for which a pod is remembered that is not listed any more: a list may be older than the
// one before it.
const goneFor = 10 * time.Minute

// guard calls read, which reads cgroups, and leaves a call that hangs behind.
func guard[T any](ctx context.Context, f *found, read func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	return hang.DoAs(&f.hanging, "cgroups", ctx.Done(), read)
}

// names reads the pods that have a cgroup, while the caller does something else. The result waits.
func (f *found) names(ctx context.Context) func() (podCgroups, error) {
	var all podCgroups
	var err error
	var reading sync.WaitGroup
	if f.cgroups != nil {
		reading.Go(func() { all, err = guard(ctx, f, f.cgroups) })
	}
	return func() (podCgroups, error) {
		reading.Wait()
		return all, err
	}
}

// correct corrects listed pods by their cgroups and returns the numbers of those that lacked something
// and that have ended. A pod whose cgroup was there and is gone has ended. One that never had a cgroup
// has it elsewhere. In old lists, processes of no listed container belong to a new one.
func (f *found) correct(ctx context.Context, listed []*Pod, old bool, names func() (podCgroups, error)) (corrected []*Pod, lacking, ended int) {
	if f.cgroups == nil {
		return listed, 0, 0
	}
	runs := make(map[string]bool, len(listed))
	for _, p := range listed {
		runs[p.UID] = p.Running()
	}
	cgroups, err := names()
	if err != nil { // the lists count as they are
		return listed, 0, 0
	}
	processes, err := f.look(ctx, cgroups, func(uid string) bool { return old || !runs[uid] })
	if err != nil {
		return listed, 0, 0
	}
	gone := f.remember(cgroups, runs)
	for _, p := range listed {
		switch {
		case gone[p.UID]:
			p.end()
		case old || len(p.Ready()) > 0:
			if p.addContainers(processes[p.UID]) {
				lacking++
			}
		}
	}
	for uid, of := range processes {
		if _, isListed := runs[uid]; !isListed && of.Running {
			p := &Pod{UID: uid, SandboxUnknown: true}
			p.addContainers(of)
			listed, lacking = append(listed, p), lacking+1
		}
	}
	return listed, lacking, len(gone)
}

// look looks for the processes of the pods that which selects.
func (f *found) look(ctx context.Context, cgroups podCgroups, which func(uid string) bool) (map[string]nodefs.PodProcesses, error) {
	return guard(ctx, f, func() (map[string]nodefs.PodProcesses, error) {
		out := map[string]nodefs.PodProcesses{}
		for uid, look := range cgroups {
			if which(uid) {
				out[uid] = look()
			}
		}
		return out, nil
	})
}

// ended reports whether the cgroup of a pod was found once, and has no process now.
func (f *found) ended(ctx context.Context, uid string) bool {
	if f.cgroups == nil {
		return false
	}
	of, err := guard(ctx, f, func() (*nodefs.PodProcesses, error) {
		cgroups, err := f.cgroups()
		if look := cgroups[uid]; look != nil {
			of := look()
			return &of, err
		}
		return nil, err
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	_, before := f.last[uid]
	_, gone := f.gone[uid]
	return err == nil && (of != nil && !of.Running || of == nil && (before || gone))
}

// remember replaces the pods whose cgroup was found, and returns the listed ones whose cgroup is gone.
func (f *found) remember(cgroups podCgroups, listed map[string]bool) (gone map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.gone == nil {
		f.gone = map[string]time.Time{}
	}
	for uid := range f.last {
		f.gone[uid] = now
	}
	gone = map[string]bool{}
	for uid, at := range f.gone {
		_, there := cgroups[uid]
		_, isListed := listed[uid]
		switch {
		case there, !isListed && now.Sub(at) >= goneFor:
			delete(f.gone, uid)
		case isListed:
			f.gone[uid], gone[uid] = now, true
		}
	}
	f.last = cgroups
	return gone
}

// end marks all that a pod has as ended.
func (p *Pod) end() {
	for i, c := range p.Containers {
		if Running(c) {
			p.Containers[i] = &runtimeapi.Container{
				Id: c.GetId(), PodSandboxId: c.GetPodSandboxId(), Metadata: c.GetMetadata(), Labels: c.GetLabels(), CreatedAt: c.GetCreatedAt(),
				State: runtimeapi.ContainerState_CONTAINER_EXITED,
			}
		}
	}
	for i, b := range p.Sandboxes {
		if b.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			p.Sandboxes[i] = &runtimeapi.PodSandbox{
				Id: b.GetId(), Metadata: b.GetMetadata(), Labels: b.GetLabels(), Annotations: b.GetAnnotations(), CreatedAt: b.GetCreatedAt(),
				State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY,
			}
		}
	}
}

// addContainers adds the ids of processes as running containers without a name, except those of
// known containers and sandboxes. It reports whether there are some.
func (p *Pod) addContainers(of nodefs.PodProcesses) (added bool) {
	p.alive = of.Containers
	for _, id := range of.Containers {
		known := slices.ContainsFunc(p.Containers, func(c *runtimeapi.Container) bool { return id == c.GetId() || id == c.GetPodSandboxId() }) ||
			slices.ContainsFunc(p.Sandboxes, func(s *runtimeapi.PodSandbox) bool { return id == s.GetId() })
		if !known {
			p.Containers = append(p.Containers, &runtimeapi.Container{Id: id, State: runtimeapi.ContainerState_CONTAINER_RUNNING})
			added = true
		}
	}
	return added
}
