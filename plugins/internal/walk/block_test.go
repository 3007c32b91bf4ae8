package walk

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseEntry(t *testing.T) {
	dir := t.TempDir()
	names := map[string]uint8{"file": unix.DT_REG, "link": unix.DT_LNK, strings.Repeat("n", 255): unix.DT_DIR}
	err := errors.Join(os.WriteFile(dir+"/file", nil, 0o600), os.Symlink("file", dir+"/link"), os.Mkdir(dir+"/"+strings.Repeat("n", 255), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b block
	if more, err := b.fill(int(f.Fd())); !more || err != nil {
		t.Fatal(more, err)
	}
	dots := 0
	for !b.empty() {
		e, err := b.peek()
		if err != nil {
			t.Fatal(err)
		}
		b.drop(e)
		if e.dots() {
			dots++
			continue
		}
		if kind, ok := names[e.String()]; !ok || e.kind != kind && e.kind != unix.DT_UNKNOWN {
			t.Errorf("entry %q of kind %d", e.String(), e.kind)
		}
		delete(names, e.String())
	}
	if dots != 2 || len(names) != 0 {
		t.Errorf("%d dot entries, not seen: %v", dots, names)
	}
	if more, err := b.fill(int(f.Fd())); more || err != nil || !b.empty() {
		t.Errorf("at the end: %v, %v", more, err)
	}
}

func FuzzParseEntry(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x08abcd\x00"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x08abcde"))
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x13\x00\x08\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		for len(p) > 0 {
			e, err := parseEntry(p)
			if err != nil {
				return
			}
			if n := len(e.name); n < 2 || e.name[n-1] != 0 || strings.ContainsRune(e.String(), 0) || e.size <= 0 || e.size > len(p) {
				t.Fatalf("entry %q of size %d in %d bytes", e.name, e.size, len(p))
			}
			p = p[e.size:]
		}
	})
}

// A set remembers what it was given, up to its bound, whatever the numbers.
func TestInodes(t *testing.T) {
	for name, number := range map[string]func(i int) uint64{
		"in a run":   func(i int) uint64 { return uint64(i) + 1 },
		"in steps":   func(i int) uint64 { return uint64(i+1) << 20 },
		"high bits":  func(i int) uint64 { return uint64(i+1) << 48 },
		"up to all":  func(i int) uint64 { return ^uint64(i) },
		"multiplied": func(i int) uint64 { return uint64(i+1) * 0x9E3779B97F4A7C15 },
	} {
		t.Run(name, func(t *testing.T) {
			const n = 5000
			s := inodes{max: n}
			for round, want := range []membership{added, known} {
				for i := range n {
					if got := s.add(number(i)); got != want {
						t.Fatalf("round %d: %d is %v, want %v", round, number(i), got, want)
					}
				}
			}
			if got := s.add(number(n)); got != full {
				t.Errorf("one more is %v, want full", got)
			}
		})
	}
}
