package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// guests are the parts of guests, by the file below the directory of the programs that has the figures of their last run.
var guests = []struct {
	file    string
	columns []column
}{
	{"test/guest.json", []column{ // make e2e-guest
		{"ratio", "ratio", 2}, {"chosen_ms", "chosen", 0}, {"term_ms", "SIGTERM", 0}, {"ended_ms", "process ended", 0}, {"back_ms", "memory back", 0}, {"pss_kib", "PSS KiB", 0},
	}},
	{"test/thrash.json", []column{ // make thrash
		{"ratio", "ratio", 2}, {"runs", "runs", 0}, {"first", "first", 0}, {"gap_s", "gap", 1}, {"gone_s", "gone", 1}, {"end_s", "end", 1}, {"faults", "major faults", 0},
	}},
}

// guestParts returns the figures of guests, of those that have run.
func guestParts(bin string) (parts []*part, err error) {
	for _, g := range guests {
		text, unread := os.ReadFile(filepath.Join(bin, g.file))
		if errors.Is(unread, fs.ErrNotExist) {
			continue
		}
		p := &part{Columns: g.columns}
		if bad := errors.Join(unread, json.Unmarshal(text, p)); bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", g.file, bad))
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
	for _, p := range parts {
		p.markdown(&out)
	}
	return errors.Join(os.WriteFile(path, []byte(out.String()), 0o644), os.WriteFile(picture, []byte(ratios(parts)), 0o644))
}

// markdown writes p as a table, ratio and peer first.
func (p *part) markdown(out *strings.Builder) {
	head, first := "", "| | pods |"
	for _, c := range p.Columns {
		if c.key == "ratio" {
			first = "| | ratio | to | pods |"
			continue
		}
		head += " " + c.head + " |"
	}
	fmt.Fprintf(out, "\n## %s\n\n%s%s\n%s\n", p.Title, first, head, strings.Repeat("|---", strings.Count(first+head, "|")-1)+"|")
	for _, r := range p.Rows {
		fmt.Fprintf(out, "| %s |", r.Name)
		var rest strings.Builder
		for _, c := range p.Columns {
			if c.key == "ratio" {
				fmt.Fprintf(out, " %s | %s |", c.cell(r), r.Peer)
				continue
			}
			rest.WriteString(" " + c.cell(r) + " |")
		}
		fmt.Fprintf(out, " %s |%s\n", r.pods(), rest.String())
	}
	for i, n := range p.Notes {
		if i == 0 {
			out.WriteString("\n")
		}
		out.WriteString(n + "\n")
	}
}

// ratios draws the ratios of all rows that have one, up to mostRatio.
func ratios(parts []*part) string {
	const (
		mostRatio, unit  = 10, 40 // pixels
		left, line, text = 420, 18, 12
		right            = left + mostRatio*unit + 60
	)
	var bars strings.Builder
	y := line
	for _, p := range parts {
		for _, r := range p.Rows {
			ratio, has := r.Values["ratio"]
			if !has {
				continue
			}
			label := r.Name + " / " + r.Peer
			if r.Pods > 0 {
				label = fmt.Sprintf("%s, %d pods / %s", r.Name, r.Pods, r.Peer)
			}
			fmt.Fprintf(&bars, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.0f" height="%d" fill="#4878a8"/><text x="%.0f" y="%d">%.2f</text>`+"\n",
				left-6, y+text-2, html.EscapeString(label), left, y, min(ratio, mostRatio)*unit, text, left+min(ratio, mostRatio)*unit+4, y+text-2, ratio)
			y += line
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="%d"><rect width="100%%" height="100%%" fill="white"/>
%s<line x1="%d" y1="0" x2="%d" y2="%d" stroke="#c04040"/>
</svg>
`, right, y+line, text, bars.String(), left+unit, left+unit, y)
}
