package memory

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

// hogEnv makes this test binary a hog: a process that uses memory in a cgroup as
// it is commanded on standard input.
const hogEnv = "EVICTD_TEST_MEMORY_HOG"

func TestMain(m *testing.M) {
	if os.Getenv(hogEnv) != "" {
		if err := runHog(os.Stdin, os.Stdout); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, "hog:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runHog obeys one command a line and answers each with a line.
func runHog(in io.Reader, out io.Writer) error {
	var h hogMemory
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var command, path string
		var amount, rate int
		if _, err := fmt.Sscan(lines.Text(), &command, &amount, &rate, &path); err != nil {
			return err
		}
		if err := h.obey(command, amount*mib, rate*mib, path); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		if _, err := fmt.Fprintln(out, "done"); err != nil {
			return err
		}
	}
	return lines.Err()
}

type hogMemory struct {
	anon   [][]byte
	mapped []byte
}

func (h *hogMemory) obey(command string, bytes, rate int, path string) error {
	switch command {
	case "anon": // touch new memory, at so many bytes a second or at once
		return h.fill(bytes, rate)
	case "free":
		for _, b := range h.anon {
			if err := unix.Munmap(b); err != nil {
				return err
			}
		}
		h.anon = nil
		return nil
	case "cache": // write a file, whose pages then are inactive page cache
		return writeCache(path, bytes)
	case "drop": // let its pages go
		return withFile(path, func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
	case "lock": // its pages stay, but no longer as inactive page cache
		return withFile(path, func(fd int) (err error) {
			if h.mapped, err = unix.Mmap(fd, 0, bytes, unix.PROT_READ, unix.MAP_SHARED); err != nil {
				return err
			}
			return unix.Mlock(h.mapped)
		})
	case "unlock":
		b := h.mapped
		h.mapped = nil
		return unix.Munmap(b)
	default:
		return fmt.Errorf("unknown command")
	}
}

func (h *hogMemory) fill(bytes, rate int) error {
	b, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	h.anon = append(h.anon, b)
	start := time.Now()
	for at := 0; at < len(b); at += os.Getpagesize() {
		b[at] = 1
		if rate > 0 && at%(256<<10) == 0 {
			<-time.After(time.Until(start.Add(time.Duration(int64(at) * int64(time.Second) / int64(rate)))))
		}
	}
	return nil
}

func writeCache(path string, bytes int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // synced below
	chunk := make([]byte, mib)
	for range bytes / mib {
		if _, err := f.Write(chunk); err != nil {
			return err
		}
	}
	return f.Sync()
}

func withFile(path string, do func(fd int) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	return do(int(f.Fd()))
}

// hog is a running hog, seen from its test.
type hog struct {
	t    *testing.T
	cmd  *exec.Cmd
	to   io.Writer
	from *bufio.Reader
}

// startHog starts a hog in a cgroup of its own below kubepods.
func startHog(t *testing.T, r ownRoot) *hog {
	t.Helper()
	r.make("kubepods/burstable")
	dir := r.make("kubepods/burstable/pod" + podUID)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hogEnv+"=1", "GOGC=off")
	cmd.Stderr = os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // may have ended
		_ = cmd.Wait()
	})
	testos.WriteFile(t, filepath.Join(dir, "cgroup.procs"), strconv.Itoa(cmd.Process.Pid), 0)
	return &hog{t: t, cmd: cmd, to: to, from: bufio.NewReader(from)}
}

// does has the hog obey a command and waits until it is done. It may be called
// from any goroutine.
func (h *hog) does(command string, mibs, mibsPerSecond int, path string) {
	h.t.Helper()
	if path == "" {
		path = "-"
	}
	if _, err := fmt.Fprintln(h.to, command, mibs, mibsPerSecond, path); err != nil {
		h.t.Error(err)
		return
	}
	if answer, err := h.from.ReadString('\n'); err != nil || answer != "done\n" {
		h.t.Errorf("hog answered %q, %v to %s", answer, err, command)
	}
}

// ownRoot is a cgroup of the test's own, which serves as the kubelet's root.
type ownRoot struct {
	t         *testing.T
	hierarchy nodefs.Hierarchy
	name      string
}

// needsVersion1 returns a cgroup to work in, with a limit on kubepods below it.
func needsVersion1(t *testing.T, limitMiB int) ownRoot {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	h, err := nodefs.FS{}.MemoryHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	if h.Version != nodefs.V1 {
		t.Skip("memory notifications exist in cgroup version 1 only; test/suites/cgroupv2 covers this node")
	}
	return newOwnRoot(t, h, limitMiB)
}

func newOwnRoot(t *testing.T, h nodefs.Hierarchy, limitMiB int) ownRoot {
	t.Helper()
	r := ownRoot{t: t, hierarchy: h, name: fmt.Sprintf("/evictd-test-%d-%d", os.Getpid(), time.Now().UnixNano())}
	r.make("")
	kubepods := r.make("kubepods")
	if limitMiB > 0 {
		r.limit(kubepods, limitMiB)
	}
	return r
}

func (r ownRoot) limit(dir string, mibs int) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "memory.limit_in_bytes"), []byte(strconv.Itoa(mibs*mib)), 0); err != nil {
		r.t.Fatal(err)
	}
}

// make makes a cgroup, which is removed when the test ends.
func (r ownRoot) make(name string) string {
	r.t.Helper()
	dir := r.hierarchy.Path(r.name + "/" + name)
	if err := os.Mkdir(dir, 0o755); err != nil && !os.IsExist(err) {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.remove(dir) })
	return dir
}

// remove removes a cgroup, whose last process may be just ending.
func (r ownRoot) remove(dir string) {
	for deadline := time.Now().Add(5 * time.Second); ; {
		err := os.Remove(dir)
		if err == nil || os.IsNotExist(err) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Error(err)
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}
