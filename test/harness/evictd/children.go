package evictd

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Children returns the PIDs of a process's living children by program name, for example the plugins
// of evictd. It reads /proc, so it also finds children that evictd does not report.
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
		// The program's name is in parentheses and may contain any character.
		rest := string(stat[bytes.LastIndexByte(stat, ')')+1:])
		if f := strings.Fields(rest); len(f) < 2 || f[0] == "Z" || f[1] != strconv.Itoa(parent) {
			continue
		}
		dir := filepath.Dir(file)
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		// Use argv[0], which differs for links to the same file.
		if args, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
			name, _, _ := strings.Cut(string(args), "\x00")
			found[filepath.Base(name)] = pid
		}
	}
	return found, nil
}
