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
	// ErrNotProgram is about a file that cannot be executed: another attempt ends alike.
	ErrNotProgram = errors.New("cannot be executed")
	// ErrBusy is about a file that is open for writing.
	ErrBusy = errors.New("is open for writing")
)

// A Command describes an executable and how to start it.
type Command struct {
	// Path of the executable; Args with the name of the program first.
	Path string
	Args []string
	// Dir is the private directory that the plugin's socket is to be in.
	Dir string
	// Identity is the host's, nil without TLS.
	Identity *Identity
	// Environment has variables beyond those of the protocol.
	Environment []string
	// ByHand leaves out the variables of the protocol, as a person does.
	ByHand bool
	// Confinement is nil for a process with all the caller's rights.
	Confinement Confinement
	// Stdout takes the lines of standard output after the first one, Stderr those of
	// standard error and what go-plugin sends instead. A line is theirs during the call
	// only; cut says that there was more of it. Several goroutines call them.
	Stdout, Stderr func(line []byte, cut bool)
}

// A Confinement restricts one process. All of it is called on a thread of the process's own,
// which ends with it: changes of the thread affect no other process, and Pdeathsig comes with
// the caller's death alone.
type Confinement interface {
	// Start starts cmd, which has the attributes and the first inherited file of a
	// process without confinement. It may add to them.
	Start(cmd *exec.Cmd) error
	// OutOfMemory reports, of a process that has ended, whether the kernel has killed it
	// or a child for their memory.
	OutOfMemory() bool
	// Close kills who has left the process group and removes what was made for the
	// process. It is called once, also when Start has failed.
	Close()
}

// unconfined is a process with all the caller's rights.
type unconfined struct{}

func (unconfined) Start(cmd *exec.Cmd) error { return cmd.Start() }

func (unconfined) OutOfMemory() bool { return false }

func (unconfined) Close() {}

// parentFD is the descriptor of the pipe whose end of file tells a plugin that its
// host is gone. The SDK finds its number in the environment.
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

// notStarted says why a file could not be started.
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

// onOwnThread runs f on a thread that ends with f, in a goroutine that the caller
// waits for.
func onOwnThread(f func()) {
	go func() {
		// Never unlocked: the runtime ends a thread whose goroutine ends so.
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// The runtime would keep the main thread for ever, and its rights are what
		// /proc shows as the host's. As long as it is locked, others get others.
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
