package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/cluster/kubeapi"
	"github.com/evictd/evictd/host/internal/cluster/rights"
	victimkubernetes "github.com/evictd/evictd/host/internal/cluster/victim/kubernetes"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/node/cgroups"
	"github.com/evictd/evictd/host/internal/node/criclient"
	podrunning "github.com/evictd/evictd/host/internal/node/podsource/running"
	"github.com/evictd/evictd/shared/crisocket"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// callTimeout bounds a call to the container runtime on its local socket.
const callTimeout = 2 * time.Second

// calls lists the read-only runtime calls of the daemon and the disk plugin.
var calls = []struct {
	name string
	// without describes what evictd cannot do if the call fails.
	without string
	// disks: only needed for thresholds of filesystems.
	disks bool
	call  func(ctx context.Context, n *node) error
}{
	{"ListPodSandbox", "pods are known by their cgroups and the last list", false, func(ctx context.Context, n *node) error {
		return failure(n.runtime().ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{}))
	}},
	{"ListContainers", "pods are known by their cgroups and the last list", false, func(ctx context.Context, n *node) error {
		return failure(n.runtime().ListContainers(ctx, &runtimeapi.ListContainersRequest{}))
	}},
	{"ListContainerStats", "the use of pods' writable layers is unknown", true, func(ctx context.Context, n *node) error {
		return failure(n.runtime().ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{}))
	}},
	{"ListImages", "unused images cannot be removed when a disk is full", true, func(ctx context.Context, n *node) error {
		return failure(runtimeapi.NewImageServiceClient(n.images).ListImages(ctx, &runtimeapi.ListImagesRequest{}))
	}},
}

func failure[T any](_ T, err error) error { return err }

// tryRuntime connects, asks for the version and makes the read-only calls.
func tryRuntime(ctx context.Context, n *node, f *Findings) {
	endpoint := fmt.Sprintf("runtimeEndpoint: %q", n.c.RuntimeEndpoint)
	if n.c.ImageEndpoint != n.c.RuntimeEndpoint {
		if err := checkSocket(ctx, n.fs, n.c.ImageEndpoint); err != nil {
			f.add(Error, "imageEndpoint: %q: %v", n.c.ImageEndpoint, err)
		}
	}
	if err := checkSocket(ctx, n.fs, n.c.RuntimeEndpoint); err != nil {
		f.add(Error, "%s: %v", endpoint, err)
		return
	}
	if _, err := criclient.Probe(ctx, n.runtime()); err != nil {
		f.add(Error, "%s: %v: no pod can be evicted; %s", endpoint, err, wantSocket)
		return
	}
	disks := n.hasThreshold(onFilesystem(eviction.NodeFs, eviction.ImageFs, eviction.ContainerFs))
	for _, c := range calls {
		if c.disks && !disks {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		err := c.call(ctx, n)
		cancel()
		if err != nil && (c.name != "ListImages" || !away(err)) {
			f.add(Error, "%s: %s: %v: %s; want a container runtime that answers this call", endpoint, c.name, err, c.without)
		}
	}
}

const wantSocket = "want the socket of a running container runtime, such as unix:///run/containerd/containerd.sock"

func checkSocket(ctx context.Context, node nodefs.FS, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	path := node.Own(crisocket.Path(endpoint))
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("does not exist, is the runtime running? %s", wantSocket)
	case err == nil && info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("is not a socket, %s", wantSocket)
	case err != nil:
		return fmt.Errorf("%w, %s", err, wantSocket)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("does not answer (%w), %s", err, wantSocket)
	}
	return conn.Close()
}

// tryLayout determines where images are, like the disk plugin, and finds assignments that give one
// filesystem to two plugins: an error for the present layout, as at a reload, or a warning for each
// possible layout if the present one is unknown.
func tryLayout(_ context.Context, n *node, f *Findings) {
	for _, possible := range n.c.PossibleLayouts() {
		if err := policy.Split(n.c.Assigned, possible); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				f.add(Warning, "%s", line)
			}
		}
	}
	if n.c.Assigned(eviction.NodeFsAvailable, eviction.CanObserve) != "" {
		return
	}
	now, err := n.layout()
	switch {
	case err != nil && away(err), isDir(n.kubeletDir()) != nil: // another probe reports that
	case err != nil:
		f.add(n.diskLevel(eviction.ImageFs, eviction.ContainerFs), "imageEndpoint: %q: %v: without that directory imagefs and containerfs are not observed; want a runtime whose ImageFsInfo names a directory of this node, or no thresholds of imagefs and containerfs", n.c.ImageEndpoint, err)
	case len(*f) > 0:
		*f = nil
		f.addAll(Error, policy.Split(n.c.Assigned, now))
	}
}

// tryCgroups checks the cgroups of the running pods, like the daemon each minute.
func tryCgroups(ctx context.Context, n *node, f *Findings) {
	if _, err := n.fs.MemoryHierarchy(); errors.As(err, new(nodefs.MissingController)) { // then not cgroupRoot is wrong
		f.addAll(Error, err)
		return
	}
	watch := parts.WatchCgroups(n.c, n.running, cgroups.Options{
		Tell: func(context.Context, string) error { return nil }, Tally: func(int) {}, Log: slog.New(slog.DiscardHandler),
		Running: func(ctx context.Context) (running []cgroups.Pod, err error) {
			active, _ := n.active(ctx) // another probe reports the error
			for _, p := range active {
				if p.Row.Running {
					running = append(running, cgroups.Pod{UID: p.Row.UID, Name: p.Row.Namespace + "/" + p.Row.Name, Containers: p.ContainerIDs})
				}
			}
			return running, nil
		},
	})
	watch.Look(ctx)
	if err := watch.Healthy(); err != nil {
		f.add(Error, "cgroupRoot: %q: %v", n.c.CgroupRoot, err)
	} else if problem := watch.Status().Problem; problem != "" {
		f.add(Warning, "cgroupRoot: %q: %s", n.c.CgroupRoot, problem)
	}
}

// tryKubeletPods finds pods that a kubelet has from its API server, and that have no manifest on
// the node.
func tryKubeletPods(ctx context.Context, n *node, f *Findings) {
	if n.c.Mode != config.ModeCRI || n.running == nil {
		return
	}
	active, err := n.active(ctx)
	if err != nil { // another probe reports that
		return
	}
	missing, evictable := 0, 0
	for _, p := range active {
		switch {
		case p.HasManifest && policy.Evictable(p.API):
			evictable++
		case !p.HasManifest && p.API.Annotations[podrunning.AnnotationSource] == podrunning.SourceAPI:
			missing++
		}
	}
	if missing == 0 {
		return
	}
	level := Error
	if evictable > 0 {
		level = Warning
	}
	f.add(level, "mode: %q: a kubelet runs on this node, and %d of its pods have no manifest in podManifestDir, so they are never evicted; want %q", n.c.Mode, missing, config.ModeKubernetes)
}

// tryManifests reads the manifests of pods.
func tryManifests(_ context.Context, n *node, f *Findings) {
	if n.c.Mode != config.ModeCRI {
		return
	}
	if err := isDir(n.c.PodManifestDir); err != nil {
		level := Error
		if n.c.StaticPodPath != "" { // which contains manifests, too
			level = Warning
		}
		f.add(level, "podManifestDir: %q: %v, want a directory of v1.Pod manifests, as a pod without one is never evicted", n.c.PodManifestDir, err)
		return
	}
	for _, p := range parts.Manifests(n.c, nil).Problems() {
		f.add(Warning, "pod manifest %v", p)
	}
}

// apiTimeout bounds all requests to the API server together.
const apiTimeout = 15 * time.Second

// tryAPI checks with a dry run whether a pod of this node could be evicted.
func tryAPI(ctx context.Context, n *node, f *Findings) {
	c := n.c
	if c.Mode != config.ModeKubernetes {
		return
	}
	api, err := parts.API(c, n.Version, slog.New(slog.DiscardHandler))
	if err != nil {
		f.add(Error, "kubeconfig: %q: %v", c.Kubeconfig, err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	all, err := podsOf(ctx, n.Options, api)
	if err != nil {
		f.addAll(Error, wantReachable(c.Kubeconfig, fmt.Errorf("list the pods of node %q: %w", c.NodeName, err)))
		return
	}
	refused, warnings := rights.Check(ctx, rights.Options{
		API: api, Node: c.NodeName, Pods: all, Patch: victimkubernetes.Patch,
		Conditions: c.NodeConditions != config.NodeConditionsNone, Taints: c.NodeConditions == config.NodeConditionsTaints, Reviews: c.MetricsElsewhere(),
		Running: n.Listed != nil, Observe: c.Observe,
	})
	f.addAll(Error, refused...)
	for _, w := range warnings {
		f.add(Warning, "%s", w)
	}
}

// podsOf returns the pods of this node in the API server: those of the daemon, or a list.
func podsOf(ctx context.Context, o Options, api *kubeapi.Client) (all []*v1.Pod, err error) {
	if o.Listed != nil {
		all, _, err = o.Listed()
		return all, err
	}
	list, err := api.ListPods(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	known, _ := list.(*v1.PodList)
	for i := range known.Items {
		all = append(all, &known.Items[i])
	}
	return all, nil
}

// wantReachable adds advice to the error of an API server that is not reachable from a pod.
func wantReachable(kubeconfig string, err error) error {
	if kubeconfig != "" || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return err
	}
	return fmt.Errorf("%w; want an API server that nodes reach: apiServer.host and apiServer.port of the chart", err)
}
