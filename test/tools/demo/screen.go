package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

// A screen prints events as they happen, with the time since the start.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	start int64
}

func newScreen(out io.Writer) *screen { return &screen{out: out, start: crossing.Now()} }

func (s *screen) line(who, format string, args ...any) {
	s.lineAt(crossing.Now(), who, format, args...)
}

// lineAt prints an event that happened at ns.
func (s *screen) lineAt(ns int64, who, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, "%8.3f s  %-7s %s\n", time.Duration(ns-s.start).Seconds(), who, fmt.Sprintf(format, args...))
}

// signalLine shows the distance of the signal from the threshold, with a bar that shrinks towards
// it.
func (s *screen) signalLine(sample crossing.Sample, thresholdBytes int64) {
	left := sample.AvailableBytes - thresholdBytes
	bar := strings.Repeat("#", int(min(30, max(0, left*30/(distanceMiB*mib)))))
	s.lineAt(sample.At, "signal", "memory.available %10s |%-30s| %10s to the threshold", amount(sample.AvailableBytes), bar, amount(left))
}

// amount returns bytes as people write them.
func amount(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", bytes/mib)
	}
	return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
}

// reported lists evictd's messages that the demo shows, with their fields.
var reported = map[string][]string{
	"plugin started":    {"plugin", "pid"},
	"plugin exited":     {"plugin", "pid", "error"},
	"evictd ready":      {"plugins"},
	"threshold met":     {"signal", "available", "threshold", "capacity"},
	"evicting pod":      {"pod", "signal", "available", "threshold", "graceSeconds", "ranker", "candidates", "ranking", "rankReason", "message"},
	"pod killed":        {"pod", "tookSeconds", "error"},
	"pod finished":      {"pod", "tookSeconds"},
	"condition changed": {"condition", "status"},
}

// record shows a record of evictd's log; with verbose all of its fields.
func (s *screen) record(r evictd.Record, verbose bool) {
	fields, ok := reported[r.Msg]
	switch {
	case verbose || r.Attrs == nil:
		fields = nil
		for key := range r.Attrs {
			fields = append(fields, key)
		}
		slices.Sort(fields)
	case !ok && (r.Level == "WARN" || r.Level == "ERROR"):
		fields = []string{"error"}
	case !ok:
		return
	}
	var text strings.Builder
	for _, key := range fields {
		if value := r.String(key); value != "" {
			if bytes, err := strconv.ParseInt(value, 10, 64); err == nil && bytes >= mib {
				value = amount(bytes)
			}
			if list, ok := r.Attrs[key].([]any); ok {
				value = strings.TrimSuffix(strings.Repeat("%v, ", len(list)), ", ")
				value = fmt.Sprintf(value, list...)
			}
			fmt.Fprintf(&text, "\n%20s  %s: %s", "", key, value)
		}
	}
	// Short texts stay on one line.
	line := text.String()
	if len(line) < 200 && !verbose {
		line = strings.Join(strings.Fields(line), " ")
		if line != "" {
			line = "  " + line
		}
	}
	s.lineAt(r.At, "evictd", "%s%s", r.Msg, line)
}
