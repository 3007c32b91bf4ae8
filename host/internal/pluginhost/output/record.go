package output

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
)

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
