package output

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
)

// A record is one line of hclog's JSON format.
type record struct {
	level   slog.Level
	message string
	fields  []slog.Attr
}

// parseRecord parses a line, and reports whether it is in hclog's format.
func parseRecord(line []byte) (record, bool) {
	if len(line) == 0 || line[0] != '{' {
		return record{}, false
	}
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return record{}, false
	}
	level, ok := fields["@level"].(string)
	if !ok {
		return record{}, false
	}
	r := record{level: levelOf(level)}
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

func levelOf(hclogLevel string) slog.Level {
	switch hclogLevel {
	case "trace", "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}
