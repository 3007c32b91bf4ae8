package launch

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	// KeptLines is the number of lines that a Log keeps.
	KeptLines = 100
	// reportLines is the number of lines kept from the beginning of a crash report: Go gives the
	// reason and the place in the first few lines of what may be thousands.
	reportLines = 6
)

// A Log keeps the last lines that all starts of a plugin have written, and the beginning of
// the last crash report. The zero Log is ready. It is safe for concurrent use.
type Log struct {
	mu      sync.Mutex
	kept    [KeptLines]string
	written int
	// report holds the beginning of the last crash report, reported the number of its first line.
	report   []string
	reported int
}

// Add appends a line.
func (l *Log) Add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept[l.written%KeptLines] = line
	switch {
	case beginsCrash(line):
		l.report, l.reported = append(l.report[:0:0], line), l.written
	case len(l.report) > 0 && len(l.report) < reportLines:
		l.report = append(l.report, line)
	}
	l.written++
}

// Last returns the last n lines kept, oldest first.
func (l *Log) Last(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.written, KeptLines)
	lines := make([]string, 0, n)
	for i := l.written - n; i < l.written; i++ {
		lines = append(lines, l.kept[i%KeptLines])
	}
	return lines
}

// Mark returns the current end of the log, for Since.
func (l *Log) Mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// Since returns the last n lines written after mark. If a crash was reported after mark, they are
// preceded by the beginning of the report: the end of a stack trace does not contain the reason.
func (l *Log) Since(mark, n int) []string {
	l.mu.Lock()
	end, report, reported := l.written, l.report, l.reported
	l.mu.Unlock()
	lines := l.Last(min(n, end-mark))
	if len(report) == 0 || reported < mark {
		return lines
	}
	between := end - len(lines) - reported // lines from the report's first to the last ones
	switch {
	case between <= 0:
		return lines
	case between <= len(report):
		return append(report[:between:between], lines...)
	default:
		return append(append(slices.Clip(report), "..."), lines...)
	}
}

// exception matches the first line of an uncaught exception in Node.js and Python.
var exception = regexp.MustCompile(`^(Uncaught )?[\w.]*(Error|Exception)(:|$| )`)

// beginsCrash reports whether a line begins a crash report.
func beginsCrash(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || exception.MatchString(line)
}
