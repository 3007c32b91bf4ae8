package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/evictd/evictd/test/stack/crossing"
)

// A Record is one line of evictd's log.
type Record struct {
	// At is when the line was read, CLOCK_MONOTONIC in nanoseconds.
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

const tailLines = 40

type log struct {
	onRecord func(Record)

	mu      sync.Mutex
	records []Record
	lines   []string
	closed  bool
	more    chan struct{} // closed and replaced with each record
}

func newLog(onRecord func(Record)) *log {
	return &log{onRecord: onRecord, more: make(chan struct{})}
}

func (l *log) read(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			l.add(line, parseRecord(line))
		}
		if err != nil {
			return
		}
	}
}

func parseRecord(line string) Record {
	r := Record{At: crossing.Now()}
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
	l.mu.Lock()
	l.records = append(l.records, r)
	l.lines = append(l.lines, line)
	l.lines = l.lines[max(0, len(l.lines)-tailLines):]
	close(l.more)
	l.more = make(chan struct{})
	l.mu.Unlock()
	if l.onRecord != nil {
		l.onRecord(r)
	}
}

func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	close(l.more)
	l.more = make(chan struct{})
}

func (l *log) wait(ctx context.Context, match func(Record) bool) (Record, error) {
	for seen := 0; ; {
		l.mu.Lock()
		fresh, closed, more := l.records[seen:], l.closed, l.more
		l.mu.Unlock()
		for _, r := range fresh {
			if match(r) {
				return r, nil
			}
		}
		if seen += len(fresh); closed {
			return Record{}, errors.New("evictd exited")
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

func (l *log) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
