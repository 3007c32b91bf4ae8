// Package criclient queries the container runtime over CRI for its version, settings, sandboxes and
// containers.
//
// It does not know which pods may be evicted, has no manifests (podsource/cri) and kills nothing
// (victim/cri).
package criclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/crisocket"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// maxMessageBytes bounds a list: twice the kubelet's limit of 16 MiB, for nodes with many
	// exited containers.
	maxMessageBytes = 32 << 20
	// probeTimeout bounds Probe.
	probeTimeout = 2 * time.Second
	// driverTimeout bounds CgroupDriver.
	driverTimeout = time.Second
)

// Dial returns a connection to the container runtime at an endpoint of the node. The first call connects, and
// later ones reconnect. An error means that the endpoint is invalid.
func Dial(node nodefs.FS, endpoint string) (*grpc.ClientConn, error) {
	return crisocket.Dial(node, endpoint, maxMessageBytes)
}

// Probe asks the runtime for its name and version, to detect a wrong endpoint at the start instead
// of in the first eviction. It takes at most 2 s.
func Probe(ctx context.Context, client runtimeapi.RuntimeServiceClient) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	v, err := client.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return "", fmt.Errorf("ask container runtime for its version: %w", err)
	}
	return v.GetRuntimeName() + " " + v.GetRuntimeVersion(), nil
}

// CgroupDriver asks the runtime for its cgroup driver, "cgroupfs" or "systemd". It is "" if the
// runtime does not report it: containerd does since 2.0. It takes at most a second.
func CgroupDriver(ctx context.Context, client runtimeapi.RuntimeServiceClient) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	reply, err := client.RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return "", nil
	case err != nil:
		return "", fmt.Errorf("ask container runtime for its cgroup driver: %w", err)
	case reply.GetLinux() == nil:
		return "", nil
	}
	switch driver := reply.GetLinux().GetCgroupDriver(); driver {
	case runtimeapi.CgroupDriver_CGROUPFS:
		return nodefs.Cgroupfs, nil
	case runtimeapi.CgroupDriver_SYSTEMD:
		return nodefs.Systemd, nil
	default:
		return "", fmt.Errorf("ask container runtime for its cgroup driver: unknown driver %s", driver)
	}
}

// A Pod holds the runtime's sandboxes and containers of one pod, in the order of the listing.
type Pod struct {
	UID        string
	Sandboxes  []*runtimeapi.PodSandbox
	Containers []*runtimeapi.Container
	// SandboxUnknown: the list of sandboxes is old or missing, and has none of this pod.
	SandboxUnknown bool
	// alive are the ids of its containers and sandboxes that have processes, if lists are old.
	alive []string
}

// Kubernetes labels of sandboxes and containers.
const (
	labelUID       = "io.kubernetes.pod.uid"
	LabelNamespace = "io.kubernetes.pod.namespace"
	LabelName      = "io.kubernetes.pod.name"
)

func byPod(sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) []*Pod {
	all := make([]*Pod, 0, len(sandboxes))
	byUID, ofSandbox := make(map[string]*Pod, len(sandboxes)), make(map[string]*Pod, len(sandboxes))
	of := func(uid string) *Pod {
		p := byUID[uid]
		if p == nil {
			p = &Pod{UID: uid}
			byUID[uid], all = p, append(all, p)
		}
		return p
	}
	for _, s := range sandboxes {
		if uid := cmp.Or(s.GetLabels()[labelUID], s.GetMetadata().GetUid()); uid != "" {
			p := of(uid)
			p.Sandboxes, ofSandbox[s.GetId()] = append(p.Sandboxes, s), p
		}
	}
	for _, c := range containers {
		p := ofSandbox[c.GetPodSandboxId()]
		if uid := c.GetLabels()[labelUID]; uid != "" {
			p = of(uid)
		}
		if p != nil {
			p.Containers = append(p.Containers, c)
		}
	}
	return all
}

// Ready returns the ids of the ready sandboxes. If the sandboxes are not known, these are the ones
// of containers that have not exited, and those with processes.
func (p *Pod) Ready() []string {
	var ids []string
	for _, c := range p.Containers {
		id := c.GetPodSandboxId()
		if p.SandboxUnknown && id != "" && !slices.Contains(ids, id) && (!Exited(c) || slices.Contains(p.alive, id)) {
			ids = append(ids, id)
		}
	}
	for _, s := range p.Sandboxes {
		if s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			ids = append(ids, s.GetId())
		}
	}
	return ids
}

// Left returns the ids of the containers that have not exited.
func (p *Pod) Left() []string {
	var ids []string
	for _, c := range p.Containers {
		if !Exited(c) {
			ids = append(ids, c.GetId())
		}
	}
	return ids
}

// Running reports whether some container runs.
func (p *Pod) Running() bool { return slices.ContainsFunc(p.Containers, Running) }

// Running reports whether processes of c may be alive. A container lost by the runtime has the
// state unknown, which the kubelet also treats as alive.
func Running(c *runtimeapi.Container) bool {
	return c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING ||
		c.GetState() == runtimeapi.ContainerState_CONTAINER_UNKNOWN
}

// Exited reports whether c ran and ended.
func Exited(c *runtimeapi.Container) bool {
	return c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
}

// layoutTimeout bounds asking for the image directories.
const layoutTimeout = 2 * time.Second

// Layout asks the runtime where images and writable layers are and compares their devices with that
// of the kubelet's directory, like the disk plugin. It takes at most 2 s, unless a filesystem
// hangs.
func Layout(ctx context.Context, client runtimeapi.ImageServiceClient, root nodefs.FS, kubeletRootDir string) (layout eviction.Layout, imageDirs []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	reply, err := client.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return 0, nil, fmt.Errorf("ask container runtime where images are: %w", err)
	}
	images := mountpoint(reply.GetImageFilesystems())
	if images == "" {
		return 0, nil, errors.New("the container runtime names no directory of images")
	}
	// containerd omits writable layers that are with the images
	imageDirs = []string{images, cmp.Or(mountpoint(reply.GetContainerFilesystems()), images)}
	var devices [3]uint64
	for i, dir := range append([]string{kubeletRootDir}, imageDirs...) {
		var stat unix.Stat_t
		if err := unix.Stat(root.Path(dir), &stat); err != nil {
			return 0, imageDirs, fmt.Errorf("stat %s: %w", dir, err)
		}
		devices[i] = stat.Dev
	}
	split := devices[1] != devices[2]
	report := eviction.LayoutReport{ImageFs: split || devices[0] != devices[1], ContainerFs: split}
	return report.Layout(), imageDirs, nil
}

func mountpoint(of []*runtimeapi.FilesystemUsage) string {
	if len(of) == 0 {
		return ""
	}
	return of[0].GetFsId().GetMountpoint()
}
