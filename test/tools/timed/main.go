// Command timed runs a test binary for `go test -exec` and appends the CPU seconds of each of its tests, and of all, to a file.
//
// usage: go test -exec 'timed FILE' ...
//
// A line is "DIRECTORY TEST SECONDS", and "DIRECTORY - SECONDS" for all tests of a package. Tests that run at the same time share what they use: each has all of it.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/prometheus/procfs"
)

// boundary is a line in which a test begins or ends; those of subtests have a slash in the name.
var boundary = regexp.MustCompile(`^\x16?(=== RUN  |--- PASS:|--- FAIL:|--- SKIP:) +(\w+)( |$)`)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: timed FILE PROGRAM ARGUMENT...")
		os.Exit(2)
	}
	code, err := run(os.Args[1], os.Args[2:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "timed:", err)
		code = 1
	}
	os.Exit(code)
}

func run(file string, command []string) (code int, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() { // ends with this process
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	in, err := os.Getwd() // go test runs a test in the directory of its package
	if err != nil {
		return 0, err
	}
	var lines bytes.Buffer
	copyTimed(os.Stdout, out, func(test string, seconds float64) { fmt.Fprintf(&lines, "%s %s %.1f\n", in, test, seconds) }, func() float64 { return used(cmd.Process.Pid) })
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = max(exit.ExitCode(), 1), nil
	}
	fmt.Fprintf(&lines, "%s - %.1f\n", in, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	f, failed := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if failed == nil {
		_, failed = f.Write(lines.Bytes())
		failed = errors.Join(failed, f.Close())
	}
	return code, errors.Join(err, failed)
}

// copyTimed copies the output of a test binary and reports what each test has used when it ends.
func copyTimed(to io.Writer, from io.Reader, report func(test string, seconds float64), used func() float64) {
	began := map[string]float64{}
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadBytes('\n')
		if m := boundary.FindSubmatch(bytes.TrimRight(line, "\n")); m != nil {
			if test := string(m[2]); m[1][0] == '=' {
				began[test] = used()
			} else {
				report(test, used()-began[test])
			}
		}
		_, _ = to.Write(line) // go test reads it or has ended
		if err != nil {
			return
		}
	}
}

// used returns the CPU seconds of a process, and of its children that have ended.
func used(pid int) float64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0 // it has ended
	}
	s, err := p.Stat()
	if err != nil {
		return 0
	}
	const ticksPerSecond = 100 // USER_HZ
	return float64(int(s.UTime+s.STime)+s.CUTime+s.CSTime) / ticksPerSecond
}
