package stack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// guardEnv identifies, in the environment of a guard, the process that it guards.
const guardEnv = "EVICTD_STACK_GUARD"

// Prepare makes this process the parent of its orphaned descendants and starts its guard. Call
// it in main or TestMain, after SweepIfGuard.
func Prepare() error { return errors.Join(Guard(), AdoptOrphans()) }

// Guard starts a child, another process of this program, that sweeps as soon as this process has
// ended in any way. Call it in main or TestMain, after SweepIfGuard.
func Guard() error {
	owner, err := self()
	if err != nil {
		return err
	}
	guarded, err := json.Marshal(owner)
	if err != nil {
		return err
	}
	// Only the kernel closes this process's end, when it ends: an os.File would be closed by the
	// garbage collector.
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	out := os.NewFile(uintptr(pipe[0]), "guard")
	defer func() { _ = out.Close() }() // the child has its own descriptor
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"evictd-stack-guard"}
	cmd.Env = append(os.Environ(), guardEnv+"="+string(guarded))
	cmd.Stdin, cmd.SysProcAttr = out, detached()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start guard: %w", err)
	}
	return nil
}

// SweepIfGuard runs the guard, and does not return, if Guard has started this process. Otherwise
// it does nothing.
func SweepIfGuard() {
	guarded := os.Getenv(guardEnv)
	if guarded == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var owner Process
	if err := json.Unmarshal([]byte(guarded), &owner); err != nil {
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the owner has ended
	_ = poll(ctx, 5*time.Millisecond, func() (bool, error) { return !owner.Alive(), nil })
	ctx, cancel = context.WithTimeout(ctx, closeDeadline)
	defer cancel()
	if err := Sweep(ctx); err != nil {
		os.Exit(1) // the next Start tries again and reports the error
	}
	os.Exit(0)
}
