package supervisor

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// maxLineBytes is the longest line that an hclog plugin may write (facts of
	// go-plugin's own reader); maxTextBytes is how much of a line that is not in
	// its format is logged, and of any line kept.
	maxLineBytes = 64 << 10
	maxTextBytes = 2 << 10
	// keptLines are shown in the status of a plugin.
	keptLines = 100
	// tailLines are logged with the failure of a start.
	tailLines = 3
	// maxLinesPerSecond and maxBytesPerSecond are more than a plugin has to say, and
	// little enough for the host's log when it goes wild.
	maxLinesPerSecond = 200
	maxBytesPerSecond = 256 << 10
)

// A lineLog passes a plugin's output on to the host's log and keeps the last
// lines of it, also beyond the life of the process.
type lineLog struct {
	log  *slog.Logger
	name string

	mu      sync.Mutex
	kept    [keptLines]string
	written int
	// report is how the last crash began, and reported the number of its first line.
	report   []string
	reported int
	// second is when the present budget of lines and bytes started, dropped what did
	// not fit into it.
	second  time.Time
	budget  int
	bytes   int
	dropped int
}

func newLineLog(log *slog.Logger, name string) *lineLog {
	return &lineLog{log: log, name: name}
}

// follow logs the lines of r until its end. Before over is closed it does not read
// faster than it must.
func (l *lineLog) follow(r io.Reader, over <-chan struct{}) {
	lines := l.lines()
	_, _ = io.Copy(lines, newPacer(r, over))
	lines.flush()
}

// lines returns a writer whose lines are logged. It is for one goroutine.
func (l *lineLog) lines() *splitter { return &splitter{max: maxLineBytes, emit: l.line} }

// line logs one line of stderr: an hclog record, or text.
func (l *lineLog) line(line []byte, cut bool) {
	record, ok := parseRecord(line)
	if cut || !ok {
		l.text(line, cut)
		return
	}
	if l.keep(clip(line, len(line) > maxTextBytes), len(line)) {
		l.pass(record)
	}
}

// pass logs a record at its own level. Its fields are in a group of their own:
// a plugin cannot pass them off as the host's.
func (l *lineLog) pass(r record) {
	var log func(string, ...any)
	switch r.level {
	case slog.LevelDebug:
		log = l.log.Debug
	case slog.LevelWarn:
		log = l.log.Warn
	case slog.LevelError:
		log = l.log.Error
	default:
		log = l.log.Info
	}
	if len(r.fields) == 0 {
		log("plugin log", "plugin", l.name, "text", r.message)
		return
	}
	log("plugin log", "plugin", l.name, "text", r.message, "fields", slog.GroupValue(r.fields...))
}

// text logs a line as it is.
func (l *lineLog) text(line []byte, cut bool) {
	if len(line) == 0 {
		return
	}
	text := clip(line, cut || len(line) > maxTextBytes)
	if l.keep(text, len(text)) {
		l.log.Info("plugin output", "plugin", l.name, "text", text)
	}
}

func clip(line []byte, cut bool) string {
	if !cut {
		return string(line)
	}
	return fmt.Sprintf("%s... (cut)", line[:min(len(line), maxTextBytes)])
}

// keep keeps a line and reports whether it may be logged as well, with so many
// bytes.
func (l *lineLog) keep(line string, size int) bool {
	now := time.Now()
	l.mu.Lock()
	l.kept[l.written%keptLines] = line
	switch {
	case beginsCrash(line):
		l.report, l.reported = append(l.report[:0:0], line), l.written
	case len(l.report) > 0 && len(l.report) < reportLines:
		l.report = append(l.report, line)
	}
	l.written++
	dropped := 0
	if now.Sub(l.second) >= time.Second {
		l.second, l.budget, l.bytes = now, maxLinesPerSecond, maxBytesPerSecond
		dropped, l.dropped = l.dropped, 0
	}
	ok := l.budget > 0 && l.bytes >= size
	if ok {
		l.budget--
		l.bytes -= size
	} else {
		l.dropped++
	}
	l.mu.Unlock()
	if dropped > 0 {
		l.log.Warn("plugin writes too much, lines were not logged", "plugin", l.name, "lines", dropped,
			"perSecond", maxLinesPerSecond, "bytesPerSecond", maxBytesPerSecond)
	}
	return ok
}

// last returns the last n lines kept, oldest first.
func (l *lineLog) last(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, l.written, keptLines)
	lines := make([]string, 0, n)
	for i := l.written - n; i < l.written; i++ {
		lines = append(lines, l.kept[i%keptLines])
	}
	return lines
}

// mark remembers the present end of the log for since.
func (l *lineLog) mark() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// since returns the last few lines written after mark. If a crash was
// reported after mark, it goes before them how the report begins: the end of a
// stack does not say why.
func (l *lineLog) since(mark int) []string {
	l.mu.Lock()
	end, report, reported := l.written, l.report, l.reported
	l.mu.Unlock()
	lines := l.last(min(tailLines, end-mark))
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
