package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A part is one table of figures.
type part struct {
	Title   string   `json:"title"`
	Columns []column `json:"-"`
	Rows    []row    `json:"rows"`
	Notes   []string `json:"notes,omitempty"`
}

// A column shows one value of each row.
type column struct {
	// key names the value; it carries the unit, as it does in the JSON.
	key, head string
	decimals  int
}

// A row is the figures of one thing.
type row struct {
	Name string `json:"name"`
	// Pods is on how many pods it was measured.
	Pods int `json:"pods"`
	// Peer is what the figures are compared with.
	Peer   string             `json:"peer,omitempty"`
	Values map[string]float64 `json:"values"`
}

// print writes p as a table; a value that a row lacks is a dash.
func (p *part) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n", p.Title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	peers := false
	for _, r := range p.Rows {
		peers = peers || r.Peer != ""
	}
	cells := []string{"", "pods"}
	for _, c := range p.Columns {
		cells = append(cells, c.head)
	}
	if peers {
		cells = append(cells, "peer")
	}
	fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	for _, r := range p.Rows {
		cells := []string{r.Name, strconv.Itoa(r.Pods)}
		for _, c := range p.Columns {
			cell := "-"
			if v, ok := r.Values[c.key]; ok {
				cell = strconv.FormatFloat(v, 'f', c.decimals, 64)
			}
			cells = append(cells, cell)
		}
		if peers {
			cells = append(cells, r.Peer)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range p.Notes {
		fmt.Fprintln(w, " ", n)
	}
	return nil
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
