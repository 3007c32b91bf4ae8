package launch

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	// KeptLines bounds the lines that a Log keeps.
	KeptLines = 100
	// reportLines bounds the lines that are kept of the beginning of a crash: Go says why, and
	// where, in the first few lines of what may be thousands.
	reportLines = 6
)

// A Log keeps the last lines that the starts of a plugin have written, and how the
// last crash began. The zero Log is ready.
type Log struct {
	mu      sync.Mutex
	kept    [KeptLines]string
	written int
	// report holds the beginning of the last crash, reported the number of its first line.
	report   []string
	reported int
}

// Add takes a line.
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

// Mark remembers the present end of the log for Since.
func (l *Log) Mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// Since returns the last n lines written after mark. If a crash was
// reported after mark, it goes before them how the report begins: the end of a
// stack does not say why.
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

// exception matches the names of uncaught exceptions in the output of Node.js and Python.
var exception = regexp.MustCompile(`^(Uncaught )?[\w.]*(Error|Exception)(:|$| )`)

// beginsCrash reports whether a line is the first that says why a program crashed.
func beginsCrash(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || exception.MatchString(line)
}
