package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// shimDir is where containerd's shims put their sockets, regardless of its configuration. Each
// stack has a private one.
const shimDir = "/run/containerd"

// privateScript runs in a new mount namespace. It mounts private directories, whose names end at
// "--"; they and later all mounts of containers end with the namespace's last process.
const privateScript = `group=$1; shift
while [ "$1" != -- ]; do mount -n -t tmpfs -o mode=0711 tmpfs "$1"; shift; done; shift
set -- "$group" "$@"; ` + joinScript

// noNetwork makes containerd report that pods can run. Its plugin type does not exist, since all
// pods use the host's network.
const noNetwork = `{"cniVersion":"0.4.0","name":"none","plugins":[{"type":"none"}]}`

// containerdConfig sets restrict_oom_score_adj for machines where the score of init cannot be
// lowered. It needs no CNI plugin, since all pods use the host's network.
const containerdConfig = `version = 2
root = "%[4]s"
state = "%[1]s/state"
[grpc]
  address = "%[2]s"
[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[3]s"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stats_collect_period = 1
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[1]s/cni/bin"
    conf_dir = "%[1]s/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "%[1]s/runc"
`

func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// A daemon is a running containerd.
type daemon struct {
	process *os.Process
	ended   chan struct{}
	err     error // of its Wait; read after ended is closed
}

// configureContainerd writes the configuration of a stack's containerd.
func configureContainerd(stackDir, socket, root string, privateDirs []string) error {
	dir := filepath.Join(stackDir, "containerd")
	if err := os.MkdirAll(filepath.Join(dir, "cni/net.d"), 0o711); err != nil {
		return err
	}
	for _, private := range privateDirs {
		if err := os.MkdirAll(private, 0o711); err != nil {
			return err
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "cni/net.d/10-none.conflist"), []byte(noNetwork), 0o644),
		os.WriteFile(filepath.Join(dir, "config.toml"), fmt.Appendf(nil, containerdConfig, dir, socket, SandboxImage, root), 0o644),
	)
}

// StartContainerd starts containerd, the first time in a new mount namespace, and after
// SignalContainerd again in the same one.
func (s *Stack) StartContainerd(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(s.Dir, "containerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	run := []string{"containerd", "--config", filepath.Join(s.Dir, "containerd/config.toml")}
	// Not bound to ctx: containerd lives until Close kills it.
	var cmd *exec.Cmd
	if s.namespace == nil {
		private := append(append(s.options.privateDirs(), "--"), run...)
		cmd = s.command(context.WithoutCancel(ctx), privateScript, runtimeGroup, private[0], private[1:]...)
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	} else {
		cmd = s.inside(s.command(context.WithoutCancel(ctx), joinScript, runtimeGroup, run[0], run[1:]...))
	}
	if s.options.Programs != "" { // the script searches it for the program, containerd for its shim
		cmd.Env = append(os.Environ(), "PATH="+s.options.Programs+":/usr/sbin:"+os.Getenv("PATH"))
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	d := &daemon{process: cmd.Process, ended: make(chan struct{})}
	s.commands.Go(func() { d.err = cmd.Wait(); close(d.ended) })
	s.containerd = d
	if s.namespace == nil {
		// The descriptor keeps the namespace alive, even while no containerd runs in it.
		if s.namespace, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", d.process.Pid)); err != nil {
			return fmt.Errorf("start containerd: %w: %s", err, tail(log.Name()))
		}
	}
	err = s.connect(ctx, func() error {
		select {
		case <-d.ended:
			return errors.Join(errors.New("it exited"), d.err)
		default:
			return nil
		}
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, tail(log.Name()))
	}
	return nil
}

// SignalContainerd sends containerd a signal, and waits until it has ended unless that is SIGSTOP or
// SIGCONT. Containers keep running.
func (s *Stack) SignalContainerd(ctx context.Context, signal os.Signal) error {
	err := s.containerd.process.Signal(signal)
	if signal == syscall.SIGSTOP || signal == syscall.SIGCONT {
		return err
	} // otherwise an error is an end, seen below
	select {
	case <-s.containerd.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop containerd: it has not ended: %w", ctx.Err())
	}
}

// Inside is like Command, but the program shares containerd's mount namespace, so that both see
// each other's mounts.
func (s *Stack) Inside(ctx context.Context, name string, args ...string) *exec.Cmd {
	return s.inside(s.Command(ctx, name, args...))
}

func (s *Stack) inside(cmd *exec.Cmd) *exec.Cmd {
	enter := []string{"nsenter", fmt.Sprintf("--mount=/proc/%d/fd/%d", os.Getpid(), s.namespace.Fd()), "--"}
	cmd.Path, cmd.Args = "/usr/bin/nsenter", append(enter, cmd.Args...)
	return cmd
}

// connect waits until containerd answers, or ended reports an error.
func (s *Stack) connect(ctx context.Context, ended func() error) (err error) {
	if s.conn == nil {
		if s.conn, err = grpc.NewClient("unix://"+s.Socket, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
			return fmt.Errorf("connect to containerd: %w", err)
		}
		s.Runtime, s.Images = runtimeapi.NewRuntimeServiceClient(s.conn), runtimeapi.NewImageServiceClient(s.conn)
	}
	err = poll(ctx, 20*time.Millisecond, func() (bool, error) {
		if err := ended(); err != nil {
			return false, err
		}
		_, err := s.Runtime.Status(ctx, &runtimeapi.StatusRequest{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for containerd: %w", err)
	}
	return nil
}

// Import imports the image into the stack's containerd.
func (s *Stack) Import(ctx context.Context, image Image) error {
	archive, err := os.CreateTemp(s.Dir, "image-*.tar")
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	defer func() { _ = os.Remove(archive.Name()) }() // Close would remove it too
	if err := errors.Join(image.writeArchive(archive), archive.Close()); err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	return s.ImportArchive(ctx, archive.Name(), image.Name)
}

// ImportArchive imports the image with that name from an OCI archive.
func (s *Stack) ImportArchive(ctx context.Context, archive, name string) error {
	ctr := s.Command(ctx, "ctr", "--address", s.Socket, "--namespace", "k8s.io", "images", "import", archive)
	if out, err := ctr.CombinedOutput(); err != nil {
		return fmt.Errorf("import image %s: %w: %s", name, err, bytes.TrimSpace(out))
	}
	// CRI learns of the image from an event a moment later.
	err := poll(ctx, 5*time.Millisecond, func() (bool, error) {
		status, err := s.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
		return status.GetImage() != nil, err
	})
	if err != nil {
		return fmt.Errorf("import image %s: %w", name, err)
	}
	return nil
}

// tail returns the end of a log file, for an error message.
func tail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(raw[max(0, len(raw)-2000):]))
}
