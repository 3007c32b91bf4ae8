// Command busy runs a command while it loads the machine: cores that are fully busy, and memory
// that is taken and released all the time. Tests that fail only then have a defect.
//
//	busy [-cores 1] [-mib 300] [-hold 500ms] COMMAND ARGS...
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const mib = 1 << 20

func main() {
	cores := flag.Int("cores", 1, "how many cores are loaded")
	size := flag.Int("mib", 300, "how much is taken and given back")
	hold := flag.Duration("hold", 500*time.Millisecond, "how long it is held, and how long it is not")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	around, end := context.WithCancel(ctx)
	var work sync.WaitGroup
	for range *cores {
		work.Go(func() { spin(around) })
	}
	work.Go(func() { breathe(around, *size*mib, *hold) })
	err := run(ctx, flag.Args())
	end()
	work.Wait()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "busy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// spin uses one core fully.
func spin(ctx context.Context) {
	for ctx.Err() == nil {
		continue
	}
}

// breathe takes and releases memory in turn.
func breathe(ctx context.Context, size int, hold time.Duration) {
	turn := time.NewTicker(hold)
	defer turn.Stop()
	for ctx.Err() == nil {
		b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			fmt.Fprintln(os.Stderr, "busy: take memory:", err)
			return
		}
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		wait(ctx, turn)
		_ = unix.Munmap(b) // b comes from Mmap unchanged
		wait(ctx, turn)
	}
}

func wait(ctx context.Context, turn *time.Ticker) {
	select {
	case <-ctx.Done():
	case <-turn.C:
	}
}
