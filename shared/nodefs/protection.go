package nodefs

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// A Protection is the memory of a cgroup of version 2 with all below it, in bytes, and its
// memory.min, down to which the kernel reclaims. No figure exceeds 2^60, which stands for "max".
type Protection struct{ Min, Anon, Cache, Mapped int64 }

// ReadProtection reads a cgroup other than the root. The error wraps ErrGone if it does not exist.
func ReadProtection(h Hierarchy, cgroup string) (p Protection, err error) {
	const most = unlimitedAbove >> 2 // of which a few can be added
	b, release := BorrowBuffer()
	defer release()
	read := func(into *int64, name string, parse func([]byte) (int64, error)) {
		var file *File
		if err == nil {
			file, err = h.open(cgroup, name)
		}
		if err == nil {
			defer file.Close()
			*into, err = readParsed(file, b, parse)
			*into = min(*into, most)
		}
	}
	read(&p.Min, "memory.min", func(text []byte) (int64, error) {
		if limit, limited, err := parseLimit(text); limited || err != nil {
			return limit, err
		}
		return most, nil
	})
	var active int64
	for _, s := range []struct {
		into *int64
		key  []byte
	}{{&p.Anon, keyAnon}, {&p.Mapped, keyFileMapped}, {&p.Cache, keyInactiveFile}, {&active, keyActiveFile}} {
		read(s.into, "memory.stat", func(text []byte) (int64, error) { return parseStat(text, s.key) })
	}
	p.Cache += active
	return p, err
}

// ProtectedCache returns the bytes of page cache below a cgroup that memory.min protects, of which
// effective bytes are: MemAvailable counts it, and the kernel does not reclaim it. Anonymous memory
// uses a cgroup's protection up before the cache does.
func ProtectedCache(h Hierarchy, cgroup string, effective int64) (sum int64) {
	entries, _ := os.ReadDir(h.Path(cgroup)) // the cgroup may be gone
	for _, e := range entries {
		child := path.Join(cgroup, e.Name())
		p, err := ReadProtection(h, child)
		if err != nil || p.Min == 0 {
			continue
		}
		cache := ProtectedCache(h, child, p.Min)
		if cache == 0 { // it has all of the protection itself
			cache = min(p.Cache, max(0, p.Min-p.Anon))
		}
		sum = min(sum+cache, effective)
	}
	return sum
}

// CgroupOf returns a process's cgroup of version 2, "" if it has none.
func CgroupOf(f FS, pid int32) (string, error) {
	text, err := os.ReadFile(f.Path(fmt.Sprintf("/proc/%d/cgroup", pid)))
	for line := range strings.Lines(string(text)) {
		if cgroup, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); ok {
			return path.Clean("/" + cgroup), err // without the .. that a cgroup namespace puts before it
		}
	}
	return "", err
}
