package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// A Filesystem is one of its own in a sparse file.
type Filesystem struct {
	// Path is where it is mounted, relative to the stack's directory.
	Path string
	// Type is ext4 or xfs.
	Type  string
	Bytes int64
	// Mkfs are more arguments of mkfs.
	Mkfs []string
}

// quietly are the arguments of mkfs that let no figure change by itself later on
// and keep nothing back for root.
var quietly = map[string][]string{
	"ext4": {"-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1"},
	"xfs":  {"-q", "-f"},
}

// mount makes the filesystem. Its loop device goes with the last mount.
func (f Filesystem) mount(ctx context.Context, dir string) error {
	point := filepath.Join(dir, f.Path)
	file := point + ".img"
	if err := os.MkdirAll(point, 0o755); err != nil {
		return err
	}
	made, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := errors.Join(made.Truncate(f.Bytes), made.Close()); err != nil {
		return err
	}
	mkfs := append(append([]string{"/usr/sbin/mkfs." + f.Type}, quietly[f.Type]...), f.Mkfs...)
	for _, args := range [][]string{append(mkfs, file), {"mount", "-n", "-o", "loop", file, point}} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("filesystem %s: %v: %w: %s", f.Path, args, err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// PrivateMounts gives this process a mount namespace of its own by executing it
// anew: whatever is mounted in it ends with its last process, however that ends.
// For main and TestMain, as the first thing they do.
func PrivateMounts() error {
	if os.Getenv(privateEnv) != "" {
		return os.Unsetenv(privateEnv) // children have their reasons if they ask again
	}
	// The thread that leaves the namespace is the one that becomes the new program.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("leave the mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("execute this program anew: %w", err)
	}
	err = unix.Exec(self, os.Args, append(os.Environ(), privateEnv+"=1"))
	return fmt.Errorf("execute this program anew: %w", err)
}

const privateEnv = "EVICTD_STACK_PRIVATE_MOUNTS"
