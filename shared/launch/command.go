package launch

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"syscall"

	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/wire"
)

var (
	// ErrNotProgram means that the file cannot be executed; another attempt fails too.
	ErrNotProgram = errors.New("cannot be executed")
	// ErrBusy means that the file is open for writing.
	ErrBusy = errors.New("is open for writing")
)

// A Command describes an executable and how to start it.
type Command struct {
	// Path of the executable; Args begin with the program's name.
	Path string
	Args []string
	// Dir is the private directory in which the plugin must create its socket.
	Dir string
	// Identity is the host's; nil means no TLS.
	Identity *Identity
	// Environment has variables in addition to those of the protocol.
	Environment []string
	// ByHand omits the variables of the protocol, like a start by a person.
	ByHand bool
	// Confinement restricts the process; nil leaves it all rights of the caller.
	Confinement Confinement
	// Stdout gets the lines of standard output after the first one; Stderr gets those of
	// standard error and what go-plugin forwards. They must not keep line; cut means that the
	// line was longer. They are called from several goroutines.
	Stdout, Stderr func(line []byte, cut bool)
}

// A Confinement restricts one process. Its methods are called on a thread that is reserved for
// the process and ends with it: changes to the thread affect no other process, and Pdeathsig is
// sent only when the caller dies.
type Confinement interface {
	// Start starts cmd, which has the attributes and the first inherited file of a process
	// without confinement. It may add to them.
	Start(cmd *exec.Cmd) error
	// OutOfMemory reports, after the process has ended, whether the kernel killed it or a
	// child because of their memory.
	OutOfMemory() bool
	// Close kills children that have left the process group and removes what was made for the
	// process. It is called once, even if Start has failed.
	Close()
}

// unconfined leaves a process all rights of the caller.
type unconfined struct{}

func (unconfined) Start(cmd *exec.Cmd) error { return cmd.Start() }

func (unconfined) OutOfMemory() bool { return false }

func (unconfined) Close() {}

// parentFD is the descriptor of a pipe that reaches its end of file when the host is gone.
// The SDK finds the number in the environment.
const (
	parentFD    = 3
	parentFDEnv = "EVICTD_PARENT_FD=3"
)

func (c *Command) environment() []string {
	env := slices.Clone(c.Environment)
	if c.ByHand {
		return env
	}
	env = append(env,
		wire.Handshake.MagicCookieKey+"="+wire.Handshake.MagicCookieValue,
		fmt.Sprintf("PLUGIN_PROTOCOL_VERSIONS=%d", wire.ProtocolMajor),
		"PLUGIN_MIN_PORT=10000", "PLUGIN_MAX_PORT=25000",
		plugin.EnvUnixSocketDir+"="+c.Dir,
		parentFDEnv,
	)
	if c.Identity != nil {
		env = append(env, "PLUGIN_CLIENT_CERT="+c.Identity.PEM)
	}
	return env
}

// notStarted explains why a file could not be started.
func notStarted(err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%w: it is no program for %s/%s, nor a script that begins with #!: %w", ErrNotProgram, runtime.GOOS, runtime.GOARCH, syscall.ENOEXEC)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w: the interpreter or loader that it names is missing: %w", ErrNotProgram, syscall.ENOENT)
	case errors.Is(err, syscall.ETXTBSY):
		return fmt.Errorf("%w: %w", ErrBusy, err)
	default:
		return fmt.Errorf("start: %w", err)
	}
}

// onOwnThread runs f in a new goroutine on a thread that ends with f. It does not wait for f.
func onOwnThread(f func()) {
	go func() {
		// Never unlocked: the runtime ends a thread whose goroutine ends while locked to it.
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// The runtime would never end the main thread, and /proc shows its rights as the
		// host's. Keep it locked here, so that another goroutine gets another thread.
		elsewhere := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(elsewhere)
			f()
		}()
		<-elsewhere
		runtime.UnlockOSThread()
	}()
}
