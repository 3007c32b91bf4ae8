package criclient

import (
	"context"
	"slices"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// processesByPod has the pods that have a cgroup, by uid.
type processesByPod = map[string]nodefs.PodProcesses

// found remembers the pods whose cgroup was found. It is safe for concurrent use.
type found struct {
	cgroups Cgroups
	hanging hang.Left

	mu sync.Mutex
	// last are those of the last listing, gone the listed pods whose cgroup was there before.
	last processesByPod
	gone map[string]bool
}

// read reads the cgroups, with the processes of the pods that look selects. A call that hangs is left
// behind.
func (f *found) read(ctx context.Context, look func(uid string) bool) (processesByPod, error) {
	ctx, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	return hang.DoAs(&f.hanging, "cgroups", ctx.Done(), func() (processesByPod, error) { return f.cgroups(look) })
}

// names reads the pods that have a cgroup, beside the lists. The result waits for it.
func (f *found) names(ctx context.Context) func() (processesByPod, error) {
	var all processesByPod
	var err error
	var reading sync.WaitGroup
	if f.cgroups != nil {
		reading.Go(func() { all, err = f.read(ctx, func(string) bool { return false }) })
	}
	return func() (processesByPod, error) {
		reading.Wait()
		return all, err
	}
}

// correct corrects listed pods by their cgroups and returns the number of those that lacked
// something. A pod whose cgroup was there and is gone has ended. One that never had a cgroup has it
// elsewhere. In old lists, processes of no listed container belong to a new one.
func (f *found) correct(ctx context.Context, listed []*Pod, old bool, names func() (processesByPod, error)) (corrected []*Pod, lacking int) {
	if f.cgroups == nil {
		return listed, 0
	}
	runs, sure := make(map[string]bool, len(listed)), 0
	processes, err := names()
	for _, p := range listed {
		runs[p.UID] = p.Running()
		if _, there := processes[p.UID]; there && runs[p.UID] {
			sure++
		}
	}
	if err == nil && (old || sure < len(processes)) {
		processes, err = f.read(ctx, func(uid string) bool { return old || !runs[uid] })
	}
	if err != nil { // the lists count as they are
		return listed, 0
	}
	gone := f.remember(processes, runs)
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
	return listed, lacking
}

// ended reports whether the cgroup of a pod was found once, and has no process now.
func (f *found) ended(ctx context.Context, uid string) bool {
	if f.cgroups == nil {
		return false
	}
	processes, err := f.read(ctx, func(of string) bool { return of == uid })
	of, there := processes[uid]
	f.mu.Lock()
	defer f.mu.Unlock()
	_, before := f.last[uid]
	return err == nil && !of.Running && (there || before || f.gone[uid])
}

// remember replaces the pods whose cgroup was found, and returns the listed ones whose cgroup is gone.
func (f *found) remember(processes processesByPod, listed map[string]bool) (gone map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid := range listed {
		_, there := processes[uid]
		if _, before := f.last[uid]; !there && (before || f.gone[uid]) {
			if gone == nil {
				gone = map[string]bool{}
			}
			gone[uid] = true
		}
	}
	f.last, f.gone = processes, gone
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
