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

// A Filesystem is a filesystem in a sparse file.
type Filesystem struct {
	// Path is its mount point, relative to the stack's directory.
	Path string
	// Type is ext4 or xfs.
	Type  string
	Bytes int64
	// Mkfs are additional arguments of mkfs.
	Mkfs []string
}

// quietly are arguments of mkfs so that no figure changes by itself later and no blocks are
// reserved for root.
var quietly = map[string][]string{
	"ext4": {"-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1"},
	"xfs":  {"-q", "-f"},
}

// mount makes the filesystem. Its loop device is freed with the last mount.
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

// PrivateMounts executes this program again in a private mount namespace: all mounts made in it end
// with the last of its processes, however that ends. Call it first in main or TestMain.
func PrivateMounts() error {
	if os.Getenv(privateEnv) != "" {
		return os.Unsetenv(privateEnv) // children may call PrivateMounts themselves
	}
	// The thread that leaves the namespace must be the one that executes the program.
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
