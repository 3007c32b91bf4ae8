package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/ground/systemd"
	"github.com/evictd/evictd/host/internal/node/cgroups"
	"github.com/evictd/evictd/host/internal/node/criclient"
	podcri "github.com/evictd/evictd/host/internal/node/podsource/cri"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// A node caches what several probes need.
type node struct {
	Options

	c          *config.Config
	fs         nodefs.FS
	thresholds []policy.Threshold
	// running and images are nil if the endpoint is invalid, which the configuration reports.
	running, images *grpc.ClientConn

	// layout determines the layout of the filesystems, and imageDirs.
	layout    func() (eviction.Layout, error)
	imageDirs []string
	// driver finds the cgroup driver of this node.
	driver func() cgroups.Found
	// active lists the pods that run, with their manifests.
	active func(ctx context.Context) ([]pods.Pod, error)
}

func newNode(ctx context.Context, o Options) *node {
	n := &node{Options: o, c: o.Config, fs: o.Config.Node()}
	n.thresholds, _ = n.c.Thresholds() // an invalid configuration is not inspected
	n.running, _ = criclient.Dial(n.fs, n.c.RuntimeEndpoint)
	n.images, _ = criclient.Dial(n.fs, n.c.ImageEndpoint)
	n.layout = sync.OnceValues(func() (l eviction.Layout, err error) {
		l, n.imageDirs, err = criclient.Layout(ctx, runtimeapi.NewImageServiceClient(n.images), n.fs, n.c.KubeletRootDir)
		return l, err
	})
	n.driver = sync.OnceValue(func() cgroups.Found { return parts.Cgroups(n.c, n.running).Find(ctx) })
	list := o.Active
	if list == nil {
		list = podcri.New(criclient.NewLister(n.runtime(), nil), parts.Manifests(n.c, nil)).Active
	}
	n.active = func(ctx context.Context) ([]pods.Pod, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		active, err := list(ctx)
		return active.Pods, err
	}
	return n
}

// enforcesSELinux reports whether SELinux of the node refuses what its policy does not allow.
func enforcesSELinux(node nodefs.FS) bool {
	file, err := node.Open("/sys/fs/selinux/enforce")
	if err != nil {
		return false
	}
	defer file.Close()
	text, _ := file.Read(new(nodefs.Buffer)) // empty with an error
	return string(text) == "1"
}

func (n *node) close() {
	for _, conn := range []*grpc.ClientConn{n.running, n.images} {
		if conn != nil {
			_ = conn.Close() // nothing is lost
		}
	}
}

func (n *node) runtime() runtimeapi.RuntimeServiceClient {
	return runtimeapi.NewRuntimeServiceClient(n.running)
}

// hasThreshold reports whether a signal matched by of has a threshold.
func (n *node) hasThreshold(of func(eviction.Signal) bool) bool {
	return slices.ContainsFunc(n.thresholds, func(t policy.Threshold) bool { return of(t.Signal) })
}

// onFilesystem matches the signals of filesystems.
func onFilesystem(names ...eviction.Filesystem) func(eviction.Signal) bool {
	return func(s eviction.Signal) bool {
		b, _ := eviction.Builtin(s)
		return slices.Contains(names, b.Filesystem)
	}
}

// diskLevel returns the level of a finding that prevents observing filesystem signals. Without the
// disk plugin these are disabled.
func (n *node) diskLevel(of ...eviction.Filesystem) Level {
	const disk = "disk"
	plugins, _ := plugindir.Names(n.c.PluginDir) // an error is another probe's
	if n.hasThreshold(onFilesystem(of...)) && slices.Contains(plugins, disk) && !n.c.Plugins[disk].Disabled {
		return Error
	}
	return Warning
}

// isDir returns an error if path is not a directory.
func isDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("does not exist")
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("is not a directory")
	}
	return nil
}

// kubeletDir returns the kubelet's root directory as seen by this process.
func (n *node) kubeletDir() string { return n.fs.Path(n.c.KubeletRootDir) }

// tryProtection finds services on the path of an eviction that may lose their pages on a node that
// thrashes.
func tryProtection(ctx context.Context, n *node, f *Findings) {
	plan, err := systemd.Plan(ctx, n.fs, n.c.RuntimeEndpoint)
	if err != nil { // systemd cannot protect here, or another probe reports the runtime
		return
	}
	var short []string
	for _, u := range plan {
		if u.NowBytes < min(u.UsedBytes, u.WantBytes) {
			short = append(short, fmt.Sprintf("%s %d of %d MiB", u.Name(), u.NowBytes>>20, u.UsedBytes>>20))
		}
	}
	if len(short) > 0 {
		f.add(Advice, "memory.min protects too little (%s): on a node that thrashes their pages go, and the kernel may kill first; evictctl protect-node shows drop-ins of systemd, --write writes them", strings.Join(short, ", "))
	}
}

// tryProtectedCache finds a threshold that protected page cache keeps from being met.
func tryProtectedCache(_ context.Context, n *node, f *Findings) {
	memory, err := n.fs.ReadNodeMemory(nodefs.MemoryRules{})
	h, _ := n.fs.MemoryHierarchy()
	if err != nil { // another probe reports that
		return
	}
	cache := nodefs.ProtectedCache(h, "/", memory.LimitBytes)
	for _, t := range n.thresholds {
		if value := t.Value.Of(memory.LimitBytes); t.Signal == eviction.MemoryAvailable && t.Hard() && value.CmpInt64(cache) < 0 {
			f.add(Warning, "evictionHard[%q]: %q: memory.min of cgroups protects %d MiB of page cache, which count as available and are not reclaimed: the threshold may never be met; want more than %dMi", t.Signal, t.Value, cache>>20, cache>>20)
		}
	}
}
