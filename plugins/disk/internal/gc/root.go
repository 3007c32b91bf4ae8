package gc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
)

// mostLinks are followed on the way to a file, as many as the kernel follows.
const mostLinks = 40

// within returns where the node's file name is seen below the node's root. Below
// another root than "/" it follows links itself: to the kernel an absolute one
// leads out of it.
func within(root nodefs.FS, name string) (string, error) {
	if root.Path("/") == "/" {
		return name, nil
	}
	at, links := "/", 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		next := filepath.Join(at, rest[0]) // at has no links in it, so that ".." is what it seems
		rest = rest[1:]
		if next == at || next == "/" {
			at = next
			continue
		}
		target, err := os.Readlink(root.Path(next))
		if errors.Is(err, unix.EINVAL) { // no link
			at = next
			continue
		}
		if err != nil {
			return "", err
		}
		if links++; links > mostLinks {
			return "", &os.PathError{Op: "open", Path: root.Path(name), Err: unix.ELOOP}
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return root.Path(at), nil
}

// open opens the node's file name for reading.
func (s *step) open(name string) (*os.File, error) {
	path, err := within(s.root, name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}
