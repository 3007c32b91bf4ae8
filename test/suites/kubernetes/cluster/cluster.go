package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
)

// startDeadline limits all of Start; each of the parts takes seconds.
const startDeadline = 2 * time.Minute

// Options configure a cluster.
type Options struct {
	// Kubernetes and Etcd are the directories with the programs that `make cluster` and
	// `make e2e-k8s` build. Containerd is a directory with a containerd; "" means Debian's.
	Kubernetes, Etcd, Containerd string
	// Node is the name of the node, "node" if it is empty.
	Node string
	// The node's filesystems and their use, as in stack.Options.
	Filesystems                       []stack.Filesystem
	KubeletRoot, PodLogs, RuntimeRoot string
	// Kubelet are keys of its KubeletConfiguration that override the cluster's. By default it
	// evicts only below 100Mi of memory.
	Kubelet map[string]any
	// APIServer, ControllerManager, Scheduler and KubeletFlags are additional arguments.
	APIServer, ControllerManager, Scheduler, KubeletFlags []string
	// Progress, if set, is called for each part that has been started.
	Progress func(what string, after time.Duration)
}

// A KubeletProgram replaces the kubelet in Options.Kubernetes.
type KubeletProgram struct {
	// Path is its absolute path.
	Path string
	// Env is added to the environment of this process, as "NAME=value".
	Env []string
}

// A Cluster is a running cluster. The caller of Start must end it, with Close.
type Cluster struct {
	// Stack has containerd and the directories of the node, including Dir.
	*stack.Stack
	*Access
	// Hog is the path of the program in hog.Image.
	Hog string
	// Kubelet can be used while the kubelet runs.
	Kubelet Kubelet
	// Program is the kubelet for the next start; the zero value means the released one.
	Program KubeletProgram

	// Initial are the contents after the start.
	Initial *Contents

	options Options
	ports   struct{ etcd, etcdPeer, apiserver, kubelet int }
	parts   []*part
}

// Parts are the names of all parts and their programs, in the order of their start.
var Parts = []string{"containerd", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"}

// touched are the settings of the machine that a kubelet changes
// (pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables).
var touched = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// kubeletDirs are directories that a kubelet uses regardless of its root directory.
var kubeletDirs = []string{"/var/lib/kubelet", "/var/log/containers"}

// Start removes what killed owners left behind, then starts a cluster and waits until its node
// accepts pods. The caller must Close it, even after ctx has ended.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	begin := time.Now()
	progress := func(what string) {
		if o.Progress != nil {
			o.Progress(what, time.Since(begin))
		}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	s, err := stack.Start(ctx, stack.Options{
		Name: "evictd-k8s", Programs: o.Containerd, PrivateDirs: kubeletDirs, Sysctls: touched,
		Filesystems: o.Filesystems, KubeletRoot: o.KubeletRoot, PodLogs: o.PodLogs, RuntimeRoot: o.RuntimeRoot,
	})
	if err != nil {
		return nil, err
	}
	progress("containerd")
	c := &Cluster{Stack: s, options: o}
	if err := c.start(ctx, progress); err != nil {
		return nil, errors.Join(fmt.Errorf("start cluster: %w", err), c.Close()) //nolint:contextcheck // removing must work after ctx has ended
	}
	return c, nil
}

// check returns an error for each missing program.
func (o Options) check() error {
	var errs []error
	programs := []string{filepath.Join(o.Etcd, "etcd")}
	for _, name := range append(Parts[2:], "kubectl") {
		programs = append(programs, filepath.Join(o.Kubernetes, name))
	}
	for _, program := range programs {
		if _, err := os.Stat(program); err != nil {
			errs = append(errs, fmt.Errorf("program of the cluster, which make cluster builds: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) start(ctx context.Context, progress func(string)) error {
	for _, port := range []*int{&c.ports.etcd, &c.ports.etcdPeer, &c.ports.apiserver, &c.ports.kubelet} {
		free, err := FreePort(ctx)
		if err != nil {
			return err
		}
		*port = free
	}
	access, err := newAccess(filepath.Join(c.Dir, "pki"), cmp.Or(c.options.Node, "node"), fmt.Sprintf("https://127.0.0.1:%d", c.ports.apiserver))
	if err != nil {
		return err
	}
	c.Access, c.Kubelet = access, Kubelet{fmt.Sprintf("https://127.0.0.1:%d", c.ports.kubelet), access.admin}
	if err := errors.Join(c.writeKubeletConfig(c.options.Kubelet), prepareNode(ctx, c.Stack, c.Node)); err != nil {
		return err
	}
	c.parts = c.programs() //nolint:contextcheck // they live until they are stopped
	for _, p := range c.parts {
		if err := p.start(ctx); err != nil {
			return err
		}
		progress(p.name)
	}
	program, err := hog.Install(ctx, c.Stack)
	if err != nil {
		return err
	}
	c.Hog = program
	if err := c.awaitNode(ctx); err != nil {
		return err
	}
	progress("node ready")
	config, err := c.Config(Admin)
	if err != nil {
		return err
	}
	dirs := []string{c.Dir}
	for _, f := range c.options.Filesystems {
		dirs = append(dirs, filepath.Join(c.Dir, f.Path))
	}
	c.Initial, err = contentsOf(ctx, config, c.Client, c.Node, dirs)
	return err
}

// awaitNode waits until the node accepts pods, and pods can be created.
func (c *Cluster) awaitNode(ctx context.Context) error {
	_, err := c.AwaitNode(ctx, func(n *v1.Node) bool {
		return NodeCondition(n, v1.NodeReady) == v1.ConditionTrue && len(n.Spec.Taints) == 0
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, c.parts[len(c.parts)-1].tail())
	}
	return c.AwaitNamespace(ctx, metav1.NamespaceDefault)
}

// FreePort returns an unused port of loopback. It is below the kernel's range for connections
// (net.ipv4.ip_local_port_range), so that no connection takes it before a part of the cluster does.
func FreePort(ctx context.Context) (int, error) {
	const lowest, tries = 20000, 100
	var err error
	for range tries {
		var l net.Listener
		if l, err = new(net.ListenConfig).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", lowest+rand.N(10000))); err == nil {
			return l.Addr().(*net.TCPAddr).Port, l.Close()
		}
	}
	return 0, err
}

func (c *Cluster) part(name string) (*part, error) {
	for _, p := range c.parts {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("part %q: want one of %s", name, strings.Join(Parts, ", "))
}

// StopPart ends a part gracefully, with SIGTERM, and waits for it to end.
func (c *Cluster) StopPart(ctx context.Context, name string) error {
	return c.endPart(ctx, name, syscall.SIGTERM)
}

// KillPart ends a part with SIGKILL and waits for it to end.
func (c *Cluster) KillPart(ctx context.Context, name string) error {
	return c.endPart(ctx, name, syscall.SIGKILL)
}

func (c *Cluster) endPart(ctx context.Context, name string, signal os.Signal) error {
	if name == Parts[0] {
		return c.SignalContainerd(ctx, signal)
	}
	p, err := c.part(name)
	if err != nil {
		return err
	}
	return p.stop(ctx, signal)
}

// StartPart starts a part that was ended and waits until it serves.
func (c *Cluster) StartPart(ctx context.Context, name string) error {
	if name == Parts[0] {
		return c.StartContainerd(ctx)
	}
	p, err := c.part(name)
	if err != nil {
		return err
	}
	return p.start(ctx)
}

// RestartPart ends a part gracefully and starts it again. For the API server this takes a minute,
// since it waits for its clients.
func (c *Cluster) RestartPart(ctx context.Context, name string) error {
	if err := c.StopPart(ctx, name); err != nil {
		return err
	}
	return c.StartPart(ctx, name)
}

// ConfigureKubelet restarts the kubelet with other keys, like those of Options.Kubelet.
func (c *Cluster) ConfigureKubelet(ctx context.Context, keys map[string]any) error {
	if err := c.writeKubeletConfig(keys); err != nil {
		return err
	}
	return c.RestartPart(ctx, "kubelet")
}

// Apply passes YAML to kubectl apply, server-side, in the default namespace unless the objects
// name another.
func (c *Cluster) Apply(ctx context.Context, text string) error {
	_, err := c.Kubectl(ctx, text, "apply", "--server-side", "-f", "-")
	return err
}

// Kubectl runs kubectl as Admin with the given input and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.options.Kubernetes, "kubectl"), append([]string{
		"--kubeconfig", c.AdminKubeconfig, "--cache-dir", filepath.Join(c.Dir, "kubectl"),
	}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return string(out), fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// Log returns the path of a part's log.
func (c *Cluster) Log(name string) string { return filepath.Join(c.Dir, name+".log") }

// PID returns the PID of a part, 0 if it is not running or is containerd.
func (c *Cluster) PID(name string) int {
	p, err := c.part(name)
	if err != nil || !p.running() {
		return 0
	}
	return p.process.Pid
}
