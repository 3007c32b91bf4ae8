package criclient

import (
	"context"
	"slices"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// found remembers the pods whose cgroup was found. It is safe for concurrent use.
type found struct {
	cgroups Cgroups
	hanging hang.Left

	mu sync.Mutex
	// uids are those of the last listing.
	uids map[string]bool
}

// correct corrects listed pods by their cgroups and returns the number of those that lacked something. A pod
// whose cgroup was there and is gone has ended. One that never had a cgroup has it elsewhere. In old
// lists, processes of no listed container belong to a new one.
func (f *found) correct(ctx context.Context, listed []*Pod, old bool) (corrected []*Pod, lacking int) {
	if f.cgroups == nil {
		return listed, 0
	}
	runs := make(map[string]bool, len(listed))
	for _, p := range listed {
		runs[p.UID] = p.Running()
	}
	late, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	processes, err := hang.DoAs(&f.hanging, "cgroups", late.Done(), func() (map[string]nodefs.PodProcesses, error) {
		return f.cgroups(func(uid string) bool { return old || !runs[uid] })
	})
	if err != nil { // the lists count as they are
		return listed, 0
	}
	before := f.remember(processes, runs)
	for _, p := range listed {
		switch of, there := processes[p.UID]; {
		case !there && before[p.UID]:
			p.end()
		case old || len(p.Ready()) > 0:
			if p.addContainers(of) {
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
	processes, err := hang.DoAs(&f.hanging, "cgroups", ctx.Done(), func() (map[string]nodefs.PodProcesses, error) {
		return f.cgroups(func(of string) bool { return of == uid })
	})
	of, there := processes[uid]
	f.mu.Lock()
	defer f.mu.Unlock()
	return err == nil && !of.Running && (there || f.uids[uid])
}

// remember replaces the pods whose cgroup was found, and returns those found before.
func (f *found) remember(processes map[string]nodefs.PodProcesses, listed map[string]bool) (before map[string]bool) {
	now := make(map[string]bool, len(processes))
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid := range processes {
		now[uid] = true
	}
	for uid := range f.uids {
		if _, still := listed[uid]; still {
			now[uid] = true
		}
	}
	before, f.uids = f.uids, now
	return before
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
