package evictd

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Children returns the pids of a process's living children by the name of their
// program: of evictd's, its plugins. It is read from /proc, so it also finds
// what evictd does not tell.
func Children(parent int) (map[string]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	found := map[string]int{}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// The program's name stands in brackets and may contain any character.
		rest := string(stat[bytes.LastIndexByte(stat, ')')+1:])
		if f := strings.Fields(rest); len(f) < 2 || f[0] == "Z" || f[1] != strconv.Itoa(parent) {
			continue
		}
		dir := filepath.Dir(file)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		// Links to one file are programs of their own.
		if args, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
			name, _, _ := strings.Cut(string(args), "\x00")
			found[filepath.Base(name)] = pid
		}
	}
	return found, nil
}
