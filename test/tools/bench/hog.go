package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/child"
)

// The hog is a second process of this program in the cgroup of a pod. It fills memory until the
// usage of the cgroup of all pods exceeds a level, and reports when. Since it causes the
// crossing, no other process can see it earlier.

const (
	// hogEnv passes the hog its pod's cgroup, that of all pods, and the level.
	hogEnv = "EVICTD_BENCH_HOG"
	// hogStep is the number of bytes filled between two checks, which takes some 10 µs.
	hogStep = 64 << 10
	// hogBeyond is the number of bytes filled after the crossing: the kernel checks its levels
	// only every 128 pages.
	hogBeyond = 2 << 20
)

type hog struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	answers *os.File
	lines   *bufio.Reader // of answers
}

// startHog starts a hog in the cgroup pod that can raise the usage of the cgroup all over levelBytes.
func startHog(pod, all string, levelBytes int64) (*hog, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &hog{cmd: inGroup(exec.Command(self))}
	h.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%s:%d", hogEnv, pod, all, levelBytes))
	h.cmd.Stderr = os.Stderr
	if h.stdin, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	answers, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdout.Close() }() // the hog has its own descriptor
	h.cmd.Stdout, h.answers, h.lines = stdout, answers, bufio.NewReader(answers)
	if err := child.Start(h.cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("start hog: %w", err), answers.Close())
	}
	return h, nil
}

// fill makes the hog fill memory and returns when it crossed the level, in CLOCK_MONOTONIC.
func (h *hog) fill() (time.Duration, error) {
	answer, err := h.ask("fill")
	if err != nil {
		return 0, err
	}
	at, err := strconv.ParseInt(answer, 10, 64)
	return time.Duration(at), err
}

// drain makes the hog release its memory.
func (h *hog) drain() error {
	_, err := h.ask("drain")
	return err
}

func (h *hog) ask(what string) (string, error) {
	_, err := fmt.Fprintln(h.stdin, what)
	if err == nil {
		err = h.answers.SetReadDeadline(time.Now().Add(endTimeout))
	}
	answer := ""
	if err == nil {
		answer, err = h.lines.ReadString('\n')
	}
	if err != nil {
		return "", fmt.Errorf("hog: %s: %w", what, err)
	}
	return strings.TrimSpace(answer), nil
}

// stop ends the hog by closing its input.
func (h *hog) stop() error {
	_ = h.stdin.Close() // the hog may be gone
	late := time.AfterFunc(endTimeout, func() { _ = h.cmd.Process.Kill() })
	defer late.Stop()
	if err := errors.Join(h.cmd.Wait(), h.answers.Close()); err != nil {
		return fmt.Errorf("stop hog: %w", err)
	}
	return nil
}

// runIfHog runs the hog, and does not return, if this process was started as one.
func runIfHog() {
	setting := os.Getenv(hogEnv)
	if setting == "" {
		return
	}
	if err := runHog(setting); err != nil {
		fmt.Fprintln(os.Stderr, "hog:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runHog(setting string) error {
	f := strings.Split(setting, ":")
	if len(f) != 3 {
		return fmt.Errorf("%s=%q, want POD:ALL:LEVEL", hogEnv, setting)
	}
	level, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(f[0], "cgroup.procs"), []byte("0"), 0); err != nil {
		return err
	}
	if strings.HasPrefix(f[1], tasksDir("")) {
		return runStorm(filepath.Join(f[1], "pids.current"), level)
	}
	w := working{}
	if w.usage, err = os.Open(filepath.Join(f[1], "memory.usage_in_bytes")); err != nil {
		return err
	}
	if w.stat, err = os.Open(filepath.Join(f[1], "memory.stat")); err != nil {
		return err
	}
	memory, err := unix.Mmap(-1, 0, int(level)+2*hogBeyond, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	// Huge pages would be filled in steps of 2 MiB. Without kernel support there are none.
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		answer := "drained"
		if in.Text() == "fill" {
			at, err := fillOver(memory, &w, level)
			if err != nil {
				return err
			}
			answer = strconv.FormatInt(int64(at), 10)
		} else if err := unix.Madvise(memory, unix.MADV_DONTNEED); err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return nil
}

// fillOver touches memory until the working set exceeds level, then hogBeyond more, and returns
// the time of the crossing.
func fillOver(memory []byte, w *working, level int64) (crossed time.Duration, err error) {
	beyond := 0
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
		if i%hogStep != 0 {
			continue
		}
		if beyond += hogStep; crossed != 0 {
			if beyond > hogBeyond {
				return crossed, nil
			}
			continue
		}
		over, err := w.over(level)
		if err != nil {
			return 0, err
		}
		if over {
			crossed, beyond = monotonic(), 0
		}
	}
	return 0, errors.New("all memory is touched and the level is not crossed")
}

// working reads the working set of a cgroup: usage minus inactive file pages.
type working struct {
	usage, stat *os.File
	buf         [16 << 10]byte
}

// over reads the statistics, which is slow, only if the usage exceeds level.
func (w *working) over(level int64) (bool, error) {
	n, err := w.usage.ReadAt(w.buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	usage, err := strconv.ParseInt(strings.TrimSpace(string(w.buf[:n])), 10, 64)
	if err != nil || usage <= level {
		return false, err
	}
	if n, err = w.stat.ReadAt(w.buf[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return usage-field(w.buf[:n], "total_inactive_file") > level, nil
}

// runStorm starts threads until the tasks of a cgroup exceed level, and ends them.
func runStorm(current string, level int64) error {
	debug.SetMaxThreads(2 * tasksMost)
	file, err := os.Open(current)
	if err != nil {
		return err
	}
	var gate chan struct{}
	started := make(chan struct{})
	var threads sync.WaitGroup
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() != "fill" {
			close(gate)
			threads.Wait()
			fmt.Println("drained")
			continue
		}
		gate = make(chan struct{})
		for tasks := int64(0); tasks <= level; {
			threads.Go(func() {
				runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
				started <- struct{}{}
				<-gate
			})
			<-started
			var text [32]byte
			n, err := file.ReadAt(text[:], 0)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if tasks, err = strconv.ParseInt(strings.TrimSpace(string(text[:n])), 10, 64); err != nil {
				return err
			}
		}
		fmt.Println(int64(monotonic()))
	}
	return nil
}
