package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A part is one table of figures.
type part struct {
	// name is that of the measurement.
	name string

	Title   string   `json:"title"`
	Columns []column `json:"-"`
	Rows    []row    `json:"rows"`
	Notes   []string `json:"notes,omitempty"`
}

// A column shows one value of each row.
type column struct {
	// key names the value; it includes the unit, as in the JSON.
	key, head string
	decimals  int
}

// A row has the figures of one measurement.
type row struct {
	Name string `json:"name"`
	// Pods is the number of pods in the measurement.
	Pods int `json:"pods"`
	// Peer names what the figures are compared with.
	Peer   string             `json:"peer,omitempty"`
	Values map[string]float64 `json:"values"`
}

// find returns the row of a name and a number of pods, nil if there is none.
func (p *part) find(name string, pods int) *row {
	if i := slices.IndexFunc(p.Rows, func(r row) bool { return r.Name == name && r.Pods == pods }); i >= 0 {
		return &p.Rows[i]
	}
	return nil
}

// medians returns the first of several tables of one part, with each value the median of all.
func medians(tables []*part) *part {
	for _, r := range tables[0].Rows {
		for key := range r.Values {
			var all []float64
			for _, t := range tables {
				if same := t.find(r.Name, r.Pods); same != nil {
					if v, has := same.Values[key]; has {
						all = append(all, v)
					}
				}
			}
			slices.Sort(all)
			r.Values[key] = all[len(all)/2]
		}
	}
	return tables[0]
}

// print writes p as a table, with a dash for missing values. Names are left-aligned, figures
// right-aligned.
func (p *part) print(w io.Writer) error {
	grid := [][]string{{"", "pods"}}
	for _, c := range p.Columns {
		grid[0] = append(grid[0], c.head)
	}
	grid[0] = append(grid[0], "peer")
	for _, r := range p.Rows {
		cells := []string{r.Name, r.pods()}
		for _, c := range p.Columns {
			cells = append(cells, c.cell(r))
		}
		grid = append(grid, append(cells, r.Peer))
	}
	widths := make([]int, len(grid[0]))
	compared := slices.ContainsFunc(p.Rows, func(r row) bool { return r.Peer != "" })
	for _, cells := range grid {
		for i, cell := range cells {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n%s\n", p.Title)
	for _, cells := range grid {
		last := len(cells) - 1
		text := fmt.Appendf(nil, "  %-*s", widths[0], cells[0])
		for i, cell := range cells[1:last] {
			text = fmt.Appendf(text, "  %*s", widths[i+1], cell)
		}
		if compared {
			text = append(text, "  "+cells[last]...)
		}
		out.Write(append(bytes.TrimRight(text, " "), '\n'))
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&out, "  %s\n", n)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// pods returns the number of pods as a cell.
func (r row) pods() string {
	if r.Pods == 0 {
		return "-"
	}
	return strconv.Itoa(r.Pods)
}

func (c column) cell(r row) string {
	v, ok := r.Values[c.key]
	if !ok {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', c.decimals, 64)
}

// save writes all parts as JSON.
func save(path string, parts []*part) error {
	b, err := json.MarshalIndent(parts, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
