package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// guests are the parts of other programs, by the file below test/ in the directory of the programs that has the figures of their last run.
var guests = []struct {
	name    string
	columns []column
}{
	{"kubelet", []column{ // make kubelet-e2e
		{"p50_ms", "p50", 0}, {"max_ms", "max", 0}, {"evictions", "evictions", 0},
	}},
	{"guest", []column{ // make e2e-guest
		{"ratio", "ratio", 2}, {"chosen_ms", "chosen", 0}, {"term_ms", "SIGTERM", 0}, {"ended_ms", "process ended", 0}, {"back_ms", "memory back", 0}, {"pss_kib", "PSS KiB", 0},
	}},
	{"thrash", []column{ // make thrash
		{"ratio", "ratio", 2}, {"runs", "runs", 0}, {"first", "first", 0}, {"gap_s", "gap", 1}, {"gone_s", "gone", 1}, {"end_s", "end", 1}, {"faults", "major faults", 0},
	}},
}

// guestParts returns the figures of guests, of those that have run.
func guestParts(bin string) (parts []*part, err error) {
	for _, g := range guests {
		text, unread := os.ReadFile(filepath.Join(bin, "test", g.name+".json"))
		if errors.Is(unread, fs.ErrNotExist) {
			continue
		}
		p := &part{name: g.name, Columns: g.columns}
		if bad := errors.Join(unread, json.Unmarshal(text, p)); bad != nil {
			err = errors.Join(err, fmt.Errorf("%s.json: %w", g.name, bad))
		}
		parts = append(parts, p)
	}
	return parts, err
}

// document writes all parts as a document with a picture of the ratios beside it.
func document(path, machine string, parts []*part) error {
	picture := strings.TrimSuffix(path, filepath.Ext(path)) + ".svg"
	var out strings.Builder
	fmt.Fprintf(&out, "# What evictd costs\n\n`make bench` writes this document. %s, %s. Times differ between machines and\nvary with load; each ratio is to a peer in the same run.\n\n![ratios](%s)\n",
		machine, time.Now().UTC().Format(time.DateOnly), filepath.Base(picture))
	for _, p := range append([]*part{summary(parts)}, parts...) {
		p.markdown(&out)
	}
	return errors.Join(os.WriteFile(path, []byte(out.String()), 0o644), os.WriteFile(picture, []byte(draw(parts)), 0o644))
}
