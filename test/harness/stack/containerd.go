package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// shimDir is where containerd's shims put their sockets, whatever its
// configuration says. Each stack sees a private one.
const shimDir = "/run/containerd"

// privateScript runs in a mount namespace of its own: a private shimDir and,
// later, all mounts of containers end with its last process.
const privateScript = `mount -n -t tmpfs -o mode=0711 tmpfs ` + shimDir + `; ` + joinScript

// containerdConfig: restrict_oom_score_adj is needed where the score of init is
// not ours to lower; no CNI plugin is, since all pods use the host's network.
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

func (s *Stack) startContainerd(ctx context.Context) error {
	dir := filepath.Join(s.Dir, "containerd")
	if err := os.Mkdir(dir, 0o711); err != nil {
		return err
	}
	if err := os.MkdirAll(shimDir, 0o711); err != nil {
		return err
	}
	configFile := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(configFile, fmt.Appendf(nil, containerdConfig, dir, s.Socket, pauseImage, s.RuntimeRootDir), 0o644); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.Dir, "containerd.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	// Not bound to ctx: containerd lives until Close kills it.
	cmd := s.command(context.WithoutCancel(ctx), privateScript, runtimeGroup, "containerd", "--config", configFile)
	if s.options.Programs != "" { // of the two, the script looks for the program, containerd for its shim
		cmd.Env = append(os.Environ(), "PATH="+s.options.Programs+":/usr/sbin:"+os.Getenv("PATH"))
	}
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	exited := make(chan error, 1)
	s.commands.Go(func() { exited <- cmd.Wait() })

	err = s.connect(ctx, func() error {
		select {
		case err := <-exited:
			return errors.Join(errors.New("it exited"), err)
		default:
			return nil
		}
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, tail(log.Name()))
	}
	return nil
}

// connect waits until containerd answers, or ended reports an error.
func (s *Stack) connect(ctx context.Context, ended func() error) (err error) {
	if s.conn, err = grpc.NewClient("unix://"+s.Socket, grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		return fmt.Errorf("connect to containerd: %w", err)
	}
	s.Runtime, s.Images = runtimeapi.NewRuntimeServiceClient(s.conn), runtimeapi.NewImageServiceClient(s.conn)
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

// Import makes the image known to the stack's containerd.
func (s *Stack) Import(ctx context.Context, image Image) error {
	archive, err := os.CreateTemp(s.Dir, "image-*.tar")
	if err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	defer func() { _ = os.Remove(archive.Name()) }() // Close would remove it too
	if err := errors.Join(image.writeArchive(archive), archive.Close()); err != nil {
		return fmt.Errorf("import image: %w", err)
	}
	ctr := s.Command(ctx, "ctr", "--address", s.Socket, "--namespace", "k8s.io", "images", "import", archive.Name())
	if out, err := ctr.CombinedOutput(); err != nil {
		return fmt.Errorf("import image %s: %w: %s", image.Name, err, bytes.TrimSpace(out))
	}
	// The CRI side learns of images from events, a moment later.
	err = poll(ctx, 5*time.Millisecond, func() (bool, error) {
		status, err := s.Images.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: image.Name}})
		return status.GetImage() != nil, err
	})
	if err != nil {
		return fmt.Errorf("import image %s: %w", image.Name, err)
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
