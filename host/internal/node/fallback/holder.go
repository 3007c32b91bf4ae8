package fallback

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// A holder has memory that no eviction can free.
type holder struct {
	name string
	kib  int64
}

// LargestHolder names the largest user of a signal's resource outside of all pods, with its amount:
// a process, or the kernel. It is empty for signals other than memory, and if nothing is known.
func (r *Reader) LargestHolder(s eviction.Signal) string {
	if b, _ := eviction.Builtin(s); b.Condition != eviction.MemoryPressure {
		return ""
	}
	largest := r.kernel()
	entries, err := os.ReadDir(r.fs.Path("/proc"))
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		if h := r.process(e.Name()); h.kib > largest.kib && !r.inPod(e.Name()) {
			largest = h
		}
	}
	if largest.kib == 0 {
		return ""
	}
	return fmt.Sprintf("%s with %dMi", largest.name, largest.kib>>10)
}

// process returns the resident memory of a process, which may have ended.
func (r *Reader) process(pid string) holder {
	fields := r.fields(path.Join("/proc", pid, "status"), "Name:", "VmRSS:")
	return holder{fmt.Sprintf("process %s %q", pid, fields[0]), kib(fields[1])}
}

// inPod reports whether a process is in a pod, or gone.
func (r *Reader) inPod(pid string) bool {
	content, err := r.read(path.Join("/proc", pid, "cgroup"))
	return err != nil || strings.Contains(string(content), "kubepods")
}

// kernel returns the largest memory holder within the kernel.
func (r *Reader) kernel() (largest holder) {
	fields := r.fields("/proc/meminfo", "Hugetlb:", "SUnreclaim:")
	for i, name := range []string{"the pool of huge pages", "the kernel's slab"} {
		if h := (holder{name, kib(fields[i])}); h.kib > largest.kib {
			largest = h
		}
	}
	return largest
}

// fields returns the values of keys in a file, empty for those it lacks.
func (r *Reader) fields(name string, keys ...string) []string {
	out := make([]string, len(keys))
	content, err := r.read(name)
	if err != nil {
		return out
	}
	for line := range bytes.Lines(content) {
		for i, key := range keys {
			if value, ok := strings.CutPrefix(string(line), key); ok {
				out[i] = strings.TrimSpace(value)
			}
		}
	}
	return out
}

func (r *Reader) read(name string) ([]byte, error) {
	file, err := r.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return file.Read(&nodefs.Buffer{})
}

// kib parses "123 kB".
func kib(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(text, " kB"), 10, 64)
	if err != nil || n < 0 || n > 1<<50 {
		return 0
	}
	return n
}
