package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
)

// once starts a nuisance only with the first of the calls that trigger it.
var once sync.Once

// leakDescriptors opens as many files as it can.
func leakDescriptors() {
	for {
		if fd, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0); err != nil || fd < 0 {
			return
		}
	}
}

// flood writes to f for ever.
func flood(f *os.File) {
	line := strings.Repeat("all work and no play makes a dull plugin ", 100) + "\n"
	for {
		_, _ = f.WriteString(line)
	}
}

// eatMemory touches 512 MiB. A limit is expected to stop it.
func eatMemory() {
	var eaten [][]byte
	for range 512 {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		eaten = append(eaten, b)
	}
	fmt.Fprintln(os.Stderr, "ate", len(eaten))
}

func spin() {
	for n := uint64(1); n != 0; n += 2 {
		if n == 1<<62+1 {
			n = 1
		}
	}
}

// fork starts children until that fails.
func fork() {
	for {
		child := exec.Command("/proc/self/exe", "child")
		if err := child.Start(); err != nil {
			return
		}
	}
}

// forkTwice leaves a process that is no child, is not in the process group any more, and has a
// socket in the plugin's socket directory.
func forkTwice() {
	child := exec.Command("/proc/self/exe", "middle")
	child.Stdout, child.Stderr = os.Stderr, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Run(); err != nil {
		panic(err)
	}
}

// beMiddle is the main function of the process that forkTwice starts.
func beMiddle() {
	child := exec.Command("/proc/self/exe", "orphan")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		panic(err)
	}
}

// beOrphan is the main function of the process that beMiddle starts.
func beOrphan() {
	l, err := net.Listen("unix", os.Getenv(plugin.EnvUnixSocketDir)+"/held")
	if err != nil {
		panic(err)
	}
	for {
		time.Sleep(time.Hour)
		_ = l.Addr()
	}
}

// mark creates a file that shows that this program was run.
func mark() {
	if err := os.WriteFile(filepath.Join(filepath.Dir(os.Args[0]), ".mark"), nil, 0o600); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// nest makes deeply nested directories beside its socket.
func nest() {
	if os.Chdir(os.Getenv(plugin.EnvUnixSocketDir)) != nil {
		return
	}
	for range 100_000 {
		if os.Mkdir("d", 0o700) != nil || os.Chdir("d") != nil {
			return
		}
	}
}

// makeFiles makes files beside its socket, as many as it can.
func makeFiles(n int) {
	for i := range n {
		f, err := os.Create(filepath.Join(os.Getenv(plugin.EnvUnixSocketDir), fmt.Sprint("file", i)))
		if err != nil {
			return
		}
		_ = f.Close()
	}
}
