package evictd

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A Record is one line of evictd's log.
type Record struct {
	// At is the time at which the line was read, CLOCK_MONOTONIC in nanoseconds.
	At    int64
	Level string
	Msg   string
	// Attrs are the line's other fields, as JSON decodes them. A line that is
	// not JSON is a Record whose Msg is the line.
	Attrs map[string]any
}

// String returns a field as text, "" if there is none.
func (r Record) String(key string) string {
	switch v := r.Attrs[key].(type) {
	case nil:
		return ""
	case string:
		return v
	default:
		text, _ := json.Marshal(v) // came from JSON
		return string(text)
	}
}

// tailLines is enough to see the cause of an end, and few enough for an error.
const tailLines = 40

// A log holds the lines read so far.
type log struct {
	onRecord func(Record)

	mu      sync.Mutex
	records []Record
	lines   []string
	end     error         // why no more records follow, nil while they may
	more    chan struct{} // closed and replaced with each change
}

func newLog(onRecord func(Record)) *log {
	return &log{onRecord: onRecord, more: make(chan struct{})}
}

// read reads all lines and skips empty ones.
func (l *log) read(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n')
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			l.add(line, parseRecord(line))
		}
		if err != nil {
			return
		}
	}
}

func parseRecord(line string) Record {
	r := Record{At: monotonic()}
	if err := json.Unmarshal([]byte(line), &r.Attrs); err != nil {
		return Record{At: r.At, Msg: line}
	}
	r.Level, r.Msg = r.String("level"), r.String("msg")
	for _, key := range []string{"time", "level", "msg"} {
		delete(r.Attrs, key)
	}
	return r
}

func (l *log) add(line string, r Record) {
	l.change(func() { l.records, l.lines = append(l.records, r), append(l.lines, line) })
	if l.onRecord != nil {
		l.onRecord(r)
	}
}

// close makes all waiting calls, and later ones, fail with end.
func (l *log) close(end error) { l.change(func() { l.end = end }) }

func (l *log) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.more)
	l.more = make(chan struct{})
}

func (l *log) await(ctx context.Context, match func(Record) bool) (Record, error) {
	for seen := 0; ; {
		l.mu.Lock()
		fresh, end, more := l.records[seen:], l.end, l.more
		l.mu.Unlock()
		for _, r := range fresh {
			if match(r) {
				return r, nil
			}
		}
		if seen += len(fresh); end != nil {
			return Record{}, end
		}
		select {
		case <-ctx.Done():
			return Record{}, ctx.Err()
		case <-more:
		}
	}
}

func (l *log) withMessage(msg string) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Record
	for _, r := range l.records {
		if r.Msg == msg {
			out = append(out, r)
		}
	}
	return out
}

// text returns the last lines, as they were written.
func (l *log) text(lines int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines[max(0, len(l.lines)-lines):], "\n")
}

func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail for this clock
	return t.Nano()
}
