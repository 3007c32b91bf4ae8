package plugindir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/evictd/evictd/host/internal/ground/input"
)

// maxLinks is the kernel's limit of symbolic links in one path.
const maxLinks = 40

// Trusted resolves the symbolic links in path and checks that only root and the host's user could
// have created or can change anything on the way. It returns the path without links and the info of
// its target.
func Trusted(path string) (string, fs.FileInfo, error) {
	self := uint32(os.Geteuid())
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, fmt.Errorf("find %s: %w", path, err)
	}
	at, rest := "/", split(abs)
	info, err := os.Lstat(at)
	if err != nil {
		return "", nil, err
	}
	errs := []error{checkOwner(at, info, self, len(rest) == 0)}
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		if info, err = os.Lstat(next); err != nil {
			return "", nil, errors.Join(append(errs, err)...)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			errs = append(errs, checkOwner(next, info, self, len(rest) == 0))
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, fmt.Errorf("%s: more than %d symbolic links, want fewer", path, maxLinks)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		errs = append(errs, checkOwner(next, info, self, false))
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(split(target), rest...)
	}
	// The last component may have been "..".
	if info, err = os.Lstat(at); err != nil {
		return "", nil, err
	}
	return at, info, errors.Join(errs...)
}

// TrustedDir checks a directory like Trusted.
func TrustedDir(path string) error {
	_, info, err := Trusted(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("is a %s, want a directory", input.Kind(info.Mode()))
	}
	return err
}

// Executable checks that path may be run as a plugin and returns it without symbolic links; an
// error is a Refusal. It must be called before every start: the file may have changed.
func Executable(path string) (string, error) {
	resolved, info, err := Trusted(path)
	if err != nil {
		if target, _ := os.Readlink(path); errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(target, staged) {
			err = fmt.Errorf("the container plugin-%s of this pod has not copied it yet, see kubectl describe pod: %w", filepath.Base(target), err)
		}
		return "", Refusal{Err: err, MayPass: true}
	}
	if err := checkExecutable(resolved, info); err != nil {
		return resolved, Refusal{Err: err, MayPass: true}
	}
	return resolved, nil
}

func checkExecutable(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: is a %s, want an executable regular file", path, input.Kind(info.Mode()))
	}
	if info.Mode().Perm()&0o111 == 0 {
		if reason := reasonIn(path); reason != "" {
			return errors.New(reason)
		}
		return fmt.Errorf("%s: mode %04o is not executable, want for example 0755 (chmod +x), or remove the file", path, info.Mode().Perm())
	}
	return nil
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// checkOwner checks one file or directory. last is the target of the path: a sticky bit suffices
// for its parents only, since it protects the entries of a directory but lets others add to it.
func checkOwner(path string, info fs.FileInfo, self uint32, last bool) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s: owner cannot be read on this system", path)
	}
	var errs []error
	if st.Uid != 0 && st.Uid != self {
		errs = append(errs, fmt.Errorf("%s: owned by uid %d, want root (0) or the host's user (%d)", path, st.Uid, self))
	}
	mode := info.Mode()
	sticky := info.IsDir() && mode&fs.ModeSticky != 0 && st.Uid == 0 && !last
	if mode.Perm()&0o022 != 0 && mode&fs.ModeSymlink == 0 && !sticky {
		errs = append(errs, fmt.Errorf("%s: mode %04o is writable by others than its owner, want at most %04o (chmod go-w)",
			path, mode.Perm(), mode.Perm()&^0o022))
	}
	return errors.Join(errs...)
}
