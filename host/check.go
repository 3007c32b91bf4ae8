package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/host/internal/httpserver"
	podcri "github.com/evictd/evictd/host/internal/podsource/cri"
	podrunning "github.com/evictd/evictd/host/internal/podsource/running"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rights"
	"github.com/evictd/evictd/host/internal/supervisor"
	victimkubernetes "github.com/evictd/evictd/host/internal/victim/kubernetes"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// dialTimeout is for a local socket, which answers at once or not at all.
const dialTimeout = 2 * time.Second

// apiTimeout is for all that the API server is asked.
const apiTimeout = 15 * time.Second

// Check looks at what c names and this node may not have, with the checks that a
// manager makes itself, and starts nothing. The errors are what a manager or one of
// its plugins would not start for, or could evict nobody without, the warnings what it
// runs without.
func Check(ctx context.Context, c *Config) (errs []error, warnings []string) {
	add := func(field, value string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q: %w", field, value, err))
		}
	}
	add("pluginDir", c.PluginDir, CheckPluginDir(c.PluginDir))
	add("runtimeEndpoint", c.RuntimeEndpoint, checkSocket(ctx, c.RuntimeEndpoint))
	if c.ImageEndpoint != c.RuntimeEndpoint {
		add("imageEndpoint", c.ImageEndpoint, checkSocket(ctx, c.ImageEndpoint))
	}
	split, err := checkAssignments(ctx, c)
	errs = append(errs, checkCgroups(ctx, c), err, httpserver.CheckFiles(c.TLSCertFile, c.TLSPrivateKeyFile))
	refused, warnings := supervisor.Check(supervisor.Options{Dir: c.PluginDir, Settings: pluginSettings(c), Assign: c.Assign})
	if isDir(c.PluginDir) == nil { // else it was reported
		errs = append(errs, refused...)
	}
	if err := isDir(filepath.Join(c.RootDir, c.KubeletRootDir)); err != nil {
		warnings = append(warnings, fmt.Sprintf("kubeletRootDir: %q: %v, want the directory of the pods' directories: nodefs is its filesystem, and without it no disk signal is observed", c.KubeletRootDir, err))
	}
	warnings = append(split, warnings...)
	refusals, doubts := checkAPI(ctx, c)
	errs, warnings = append(errs, refusals...), append(warnings, doubts...)
	warnings = append(warnings, checkImageFs(ctx, c)...)
	more, none := checkKubelet(ctx, c)
	errs, warnings = append(errs, none), append(warnings, more...)
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	return errs, slices.Concat(warnings, checkCPU(nodefs.FS{Root: c.RootDir}), checkManifests(c))
}

// fewShares is half of what a cgroup has unless somebody says otherwise: below it 2 ms of work
// took seconds at worst on a node whose CPUs were busy (docs/operations.md).
const fewShares = 512

// checkCPU warns of a cgroup that is starved when the node is busy, which is when evictd is
// needed.
func checkCPU(fs nodefs.FS) []string {
	share, err := nodefs.OwnCPUShare(fs)
	if err != nil || share.Shares >= fewShares { // it may be nobody's matter, as in a shell
		return nil
	}
	return []string{fmt.Sprintf("%s: %d shares of the CPU, want %d at least: on a busy node decisions would wait for seconds; want a unit of its own, or a CPU request of 1", share.File, share.Shares, fewShares)}
}

// CheckPluginDir reports why no plugin can be found in dir.
func CheckPluginDir(dir string) error {
	const want = "want a directory of plugin executables"
	if err := isDir(dir); err != nil {
		return fmt.Errorf("%w, %s", err, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("%w, %s", err, want)
	}
	for _, e := range entries {
		if info, err := os.Stat(dir + "/" + e.Name()); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 &&
			!strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), ".tmp") {
			return nil
		}
	}
	return errors.New("has no executable in it, want at least one plugin, else no signal is observed")
}

func checkSocket(ctx context.Context, endpoint string) error {
	const want = "want the socket of a running container runtime, such as unix:///run/containerd/containerd.sock"
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	path := strings.TrimPrefix(endpoint, "unix://")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("does not exist, is the runtime running? %s", want)
	case err == nil && info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("is not a socket, %s", want)
	case err != nil:
		return fmt.Errorf("%w, %s", err, want)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("nobody answers (%w), %s", err, want)
	}
	return conn.Close()
}

// checkAssignments finds what c assigns of one filesystem to two plugins: an error in
// the layout that the node has now, as at a reload, and a warning for each possible
// layout where nobody can tell.
func checkAssignments(ctx context.Context, c *Config) (warnings []string, err error) {
	for _, possible := range c.PossibleLayouts() {
		if err := policy.Split(c.Assigned, possible); err != nil {
			warnings = append(warnings, strings.Split(err.Error(), "\n")...)
		}
	}
	if len(warnings) == 0 || c.Source == config.SourceSummary || c.Assigned(eviction.NodeFsAvailable, eviction.CanObserve) != "" {
		return warnings, nil
	}
	conn, err := criclient.Dial(c.ImageEndpoint)
	if err != nil { // it was reported
		return warnings, nil
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	now, err := criclient.Layout(ctx, runtimeapi.NewImageServiceClient(conn), nodefs.FS{Root: c.RootDir}, c.KubeletRootDir)
	if err != nil {
		return warnings, nil
	}
	return nil, policy.Split(c.Assigned, now)
}

// checkImageFs asks the container runtime where images are, as the disk plugin does.
func checkImageFs(ctx context.Context, c *Config) []string {
	conn, err := criclient.Dial(c.ImageEndpoint)
	if err != nil || c.Source == config.SourceSummary {
		return nil
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	_, err = criclient.Layout(ctx, runtimeapi.NewImageServiceClient(conn), nodefs.FS{Root: c.RootDir}, c.KubeletRootDir)
	switch code := status.Code(err); {
	case err == nil, code == codes.Unavailable, code == codes.DeadlineExceeded: // a runtime that does not answer was reported
		return nil
	}
	return []string{fmt.Sprintf("imageEndpoint: %q: %v: without that directory imagefs and containerfs are not observed", c.ImageEndpoint, err)}
}

// TryPlugins starts the plugins that have a configuration of their own, confined as
// a manager would, tells them the configuration and ends them. The errors are of
// those that do not start with it. With a summary as source they are told of no
// socket, as there is none yet.
func TryPlugins(ctx context.Context, c *Config, version string) []error {
	driver := cgroupsOf(c, nil).Find(ctx).InUse(c.CgroupDriver)
	return supervisor.Try(ctx, supervisor.Options{
		Dir: c.PluginDir, Host: eviction.Host{Version: version}, Node: nodeFacts(c, driver, ""), Settings: pluginSettings(c),
		Log: slog.New(slog.DiscardHandler),
	})
}

// checkAPI asks the API server for the pods of this node, and whether one of them could be
// evicted. Nothing is changed.
func checkAPI(ctx context.Context, c *Config) (errs []error, warnings []string) {
	if c.Mode != config.ModeKubernetes {
		return nil, nil
	}
	api, err := newAPI(c, "", slog.New(slog.DiscardHandler))
	if err != nil {
		return []error{fmt.Errorf("kubeconfig: %q: %w", c.Kubeconfig, err)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	list, err := api.ListPods(ctx, metav1.ListOptions{})
	if err != nil {
		return []error{wantReachable(c.Kubeconfig, fmt.Errorf("list the pods of node %q: %w", c.NodeName, err))}, nil
	}
	known, _ := list.(*v1.PodList)
	all := make([]*v1.Pod, 0, len(known.Items))
	for i := range known.Items {
		all = append(all, &known.Items[i])
	}
	return rights.Check(ctx, rights.Options{
		API: api, Node: c.NodeName, Pods: all, Patch: victimkubernetes.Patch,
		Conditions: c.NodeConditions != config.NodeConditionsNone, Taints: c.NodeConditions == config.NodeConditionsTaints, Reviews: !c.Loopback(),
	})
}

// wantReachable adds what to change to the error of an API server that has not answered a pod.
func wantReachable(kubeconfig string, err error) error {
	if kubeconfig != "" || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		return err
	}
	return fmt.Errorf("%w; want an API server that nodes reach: apiServer.host and apiServer.port of the chart", err)
}

func checkManifests(c *Config) []string {
	if c.Mode != config.ModeCRI {
		return nil
	}
	if err := isDir(c.PodManifestDir); err != nil {
		return []string{fmt.Sprintf("podManifestDir: %q: %v, want a directory of v1.Pod manifests, as a pod without one is never evicted", c.PodManifestDir, err)}
	}
	var warnings []string
	for _, p := range manifests(c, nil).Problems() {
		warnings = append(warnings, "pod manifest "+p.Error())
	}
	return warnings
}

// checkKubelet looks for pods that a kubelet has from its API server: nobody writes manifests
// of those on the node. The error is that no pod can be evicted.
func checkKubelet(ctx context.Context, c *Config) (warnings []string, none error) {
	if c.Mode != config.ModeCRI {
		return nil, nil
	}
	conn, err := criclient.Dial(c.RuntimeEndpoint)
	if err != nil { // it was reported
		return nil, nil
	}
	defer func() { _ = conn.Close() }() // nothing is lost
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	active, err := podcri.New(runtimeapi.NewRuntimeServiceClient(conn), manifests(c, nil)).Active(ctx)
	if err != nil { // it was reported
		return nil, nil
	}
	missing, evictable := 0, 0
	for _, p := range active.Pods {
		switch {
		case p.HasManifest && policy.Evictable(p.API):
			evictable++
		case !p.HasManifest && p.API.Annotations[podrunning.AnnotationSource] == podrunning.SourceAPI:
			missing++
		}
	}
	said := fmt.Errorf("mode: %q: a kubelet runs on this node, and %d of its pods have no manifest in podManifestDir, so they are never evicted; want %q", c.Mode, missing, config.ModeKubernetes)
	switch {
	case missing == 0:
		return nil, nil
	case evictable == 0:
		return nil, said
	default:
		return []string{said.Error()}, nil
	}
}

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
