// Package output passes a plugin's output on to the host's log, rate-limited, and keeps its last
// lines for /status. Package shared/launch reads it.
package output

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/evictd/evictd/shared/launch"
)

const (
	// maxTextBytes bounds the logged part of a line that is not in hclog's format, and the kept
	// part of any line.
	maxTextBytes = 2 << 10
	// maxLinesPerSecond and maxBytesPerSecond are more than a plugin needs, and little enough for
	// the host's log if it floods it.
	maxLinesPerSecond = 200
	maxBytesPerSecond = 256 << 10
)

// A Log passes a plugin's output on to the host's log and keeps its last lines, also after the end
// of the process.
type Log struct {
	launch.Log

	log  *slog.Logger
	name string

	lines, bytes *rate.Limiter
	// dropped counts the lines beyond these limits since they were last reported.
	dropped  atomic.Int64
	throttle rate.Sometimes
}

// New returns the log of the plugin of that name.
func New(log *slog.Logger, name string) *Log {
	return &Log{
		log: log, name: name, throttle: rate.Sometimes{Interval: time.Second},
		lines: rate.NewLimiter(maxLinesPerSecond, maxLinesPerSecond), bytes: rate.NewLimiter(maxBytesPerSecond, maxBytesPerSecond),
	}
}

// Line logs one line of stderr: an hclog record, or text.
func (l *Log) Line(line []byte, cut bool) {
	record, ok := parseRecord(line)
	if cut || !ok {
		l.Text(line, cut)
		return
	}
	if l.keep(clip(line, len(line) > maxTextBytes), len(line)) {
		l.pass(record)
	}
}

// pass logs a record at its level. A group keeps its fields from faking those of the host.
func (l *Log) pass(r record) {
	log := l.log.Info
	switch r.level {
	case "trace", "debug":
		log = l.log.Debug
	case "warn":
		log = l.log.Warn
	case "error":
		log = l.log.Error
	}
	if len(r.fields) == 0 {
		log("plugin log", "plugin", l.name, "text", r.message)
		return
	}
	log("plugin log", "plugin", l.name, "text", r.message, "fields", slog.GroupValue(r.fields...))
}

// Text logs a line unchanged.
func (l *Log) Text(line []byte, cut bool) {
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

// keep keeps a line and reports whether it may also be logged, with size bytes.
func (l *Log) keep(line string, size int) bool {
	l.Add(line)
	now := time.Now()
	if !l.lines.AllowN(now, 1) || !l.bytes.AllowN(now, size) {
		l.dropped.Add(1)
		return false
	}
	if l.dropped.Load() > 0 {
		l.throttle.Do(func() {
			l.log.Warn("plugin writes too much, lines were not logged", "plugin", l.name, "lines", l.dropped.Swap(0),
				"perSecond", maxLinesPerSecond, "bytesPerSecond", maxBytesPerSecond)
		})
	}
	return true
}

// A record is one line of hclog's JSON format.
type record struct {
	level, message string
	fields         []slog.Attr
}

// parseRecord parses a line, and reports whether it is in hclog's format.
func parseRecord(line []byte) (r record, ok bool) {
	var fields map[string]any
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &fields) != nil {
		return record{}, false
	}
	if r.level, ok = fields["@level"].(string); !ok {
		return record{}, false
	}
	if r.message, ok = fields["@message"].(string); !ok {
		return record{}, false
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch key {
		case "@level", "@message", "@timestamp":
		case "@module", "@caller":
			r.fields = append(r.fields, slog.Any(key[1:], fields[key]))
		default:
			r.fields = append(r.fields, slog.Any(key, fields[key]))
		}
	}
	return r, true
}
