package plugindir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/sandbox"
)

// socketSuffix ends the name of a socket on which a plugin listens that another program has started.
const socketSuffix = ".sock"

// Path returns the path of the plugin of that name: its executable or, if there is none, its socket.
func Path(dir, name string) (path string, socket bool) {
	path = filepath.Join(dir, name)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path + socketSuffix); err == nil {
			return path + socketSuffix, true
		}
	}
	return path, false
}

// Users returns the users that a plugin's socket and the process that listens may belong to: root, the host's,
// and another one, by name or number, "" for none.
func Users(another string) (users []uint32, err error) {
	users = slices.Compact([]uint32{0, uint32(os.Geteuid())})
	if another != "" {
		var uid uint32
		uid, err = sandbox.UserID(another)
		users = append(users, uid)
	}
	return users, err
}

// CheckSocket checks that the plugin on a socket may be called; an error is a Refusal. It follows no symbolic
// link: that it is the file in the plugin directory must not depend on another place.
func CheckSocket(path string, users []uint32) error {
	if _, _, err := Trusted(filepath.Dir(path)); err != nil {
		return Refusal{Err: err}
	}
	info, err := os.Lstat(path)
	if err != nil {
		return Refusal{Err: err}
	}
	switch mode := info.Mode(); {
	case mode.Type() != fs.ModeSocket:
		err = fmt.Errorf("%s: is a %s, want a socket, as its name ends in %s", path, input.Kind(mode), socketSuffix)
	case len(path) > launch.MaxSocketPath:
		err = fmt.Errorf("%s: a path of %d bytes, want at most %d", path, len(path), launch.MaxSocketPath)
	case mode.Perm()&0o022 != 0:
		err = fmt.Errorf("%s: mode %04o lets others than its owner call the plugin, want at most %04o (chmod go-w)", path, mode.Perm(), mode.Perm()&^0o022)
	default:
		err = checkUser(path+": owned by", info.Sys().(*syscall.Stat_t).Uid, users)
	}
	if err != nil {
		return Refusal{Err: err}
	}
	return nil
}

// CheckPeer checks the user of the process that listens on the socket.
func CheckPeer(path string, peer unix.Ucred, users []uint32) error {
	if err := checkUser(path+": its process has", peer.Uid, users); err != nil {
		return Refusal{Err: err}
	}
	return nil
}

func checkUser(what string, uid uint32, users []uint32) error {
	if slices.Contains(users, uid) {
		return nil
	}
	return fmt.Errorf("%s uid %d, want one of %v (root, the host's user, plugins.NAME.user)", what, uid, users)
}
