package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
)

// programFD is the descriptor of the program in its process. A script's
// interpreter opens the script through it, so it stays open.
const programFD = 4

// programPath is the program in its process.
var programPath = fmt.Sprintf("/proc/self/fd/%d", programFD)

// A program is the file of a plugin, open: what was checked of it is true of what
// is executed, whatever happens to its name.
type program struct {
	file *os.File
	// path is what to execute; args with what, nil for the plugin's name alone.
	path string
	args []string
	// leased: nobody can open the file for writing.
	leased bool
	// copies is where copies may be made, a directory that only the host can change.
	copies string
	// cleanUp removes a copy that was made to be executed; it may be nil.
	cleanUp func()
}

// openProgram opens the file at path, which has no links in it and is to be the one
// that was looked at, checks it once more and, if there is a pin, that it has that
// hash. link is where its process finds its descriptor.
func openProgram(path, link, copies string, looked plugindir.ID, pin string) (*program, error) {
	// Without O_NONBLOCK it would wait for the writer of a pipe.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	p := &program{file: file, copies: copies, path: link}
	if err := p.check(path, looked, pin); err != nil {
		p.close()
		p.discard()
		return nil, err
	}
	return p, nil
}

// Check does what is done before the process of the plugin of that name is started,
// whose program is found at path and is to be the one that was looked at.
func (p Policy) Check(name, path string, looked plugindir.ID) error {
	if _, err := p.admit(name); err != nil {
		return err
	}
	copies, err := os.MkdirTemp("", "evictd-check-")
	if err != nil {
		return err
	}
	program, err := openProgram(path, "", copies, looked, p.sha256)
	if err == nil {
		program.close()
		program.discard()
	}
	return errors.Join(err, os.RemoveAll(copies))
}

func (p *program) check(path string, looked plugindir.ID, pin string) error {
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	if err := plugindir.CheckProgram(path, info); err != nil {
		return plugindir.Refusal{Err: err}
	}
	// A read lease is refused while somebody writes, and makes who wants to write
	// wait. Not every filesystem has them.
	_, err = unix.FcntlInt(p.file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("%w: somebody has %s open for writing", plugindir.ErrIncomplete, path)
	}
	p.leased = err == nil
	// The time of the last change is that of the lease or before.
	if info, err = p.file.Stat(); err != nil {
		return err
	}
	if plugindir.IDOf(info) != looked {
		return fmt.Errorf("%w: %s changes", plugindir.ErrIncomplete, path)
	}
	if pin == "" {
		return nil
	}
	return p.verify(path, pin)
}

// verify checks the hash of what will be executed. A binary under a lease is
// executed as it is. One that could be written to meanwhile is copied first, and so
// is a script: its interpreter reads it when the lease is gone, perhaps by name.
func (p *program) verify(path, pin string) error {
	script, err := readShebang(p.file)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	found := ""
	switch {
	case script != nil:
		found, err = p.copyScript(path, script)
	case !p.leased:
		found, err = p.copyBinary(path)
	default:
		found, err = hashOf(p.file, io.Discard)
	}
	if err != nil {
		return fmt.Errorf("verify %s: %w", path, err)
	}
	if found != pin {
		return plugindir.Refusal{Err: fmt.Errorf("%s: has sha256 %s, want %s", path, found, pin)}
	}
	return nil
}

// arguments are those of the process of the plugin of that name.
func (p *program) arguments(name string) []string {
	if p.args != nil {
		return p.args
	}
	return []string{name}
}

// hashOf returns the hash of a file's content, which it copies to w.
func hashOf(file *os.File, w io.Writer) (string, error) {
	h := sha256.New()
	// By position: the descriptor's own is shared with the process.
	if _, err := io.Copy(io.MultiWriter(h, w), io.NewSectionReader(file, 0, 1<<62)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// started gives the file back to who wants to write to it: from here on the
// kernel keeps a running binary from being changed, or the copy is what runs.
func (p *program) started() {
	if p.leased {
		_, _ = unix.FcntlInt(p.file.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		p.leased = false
	}
}

func (p *program) close() {
	p.started()
	_ = p.file.Close()
}

// discard removes what was made for the program. It is called when the process has
// ended.
func (p *program) discard() {
	if p.cleanUp != nil {
		p.cleanUp()
	}
}
