package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A part is one table of figures.
type part struct {
	name    string // of the measurement
	Title   string
	Columns []column `json:"-"`
	Rows    []row
	Notes   []string
}

// A column shows one value of each row.
type column struct {
	// key names the value; it includes the unit.
	key, head string
	decimals  int
}

// A row has the figures of one measurement.
type row struct {
	Name string
	// Pods is the number of pods in the measurement.
	Pods int
	// Peer names what the figures are compared with.
	Peer   string
	Values map[string]float64
}

// values returns those of the row of a name and a number of pods, nil if there is none.
func (p *part) values(name string, pods int) map[string]float64 {
	for _, r := range p.Rows {
		if r.Name == name && r.Pods == pods {
			return r.Values
		}
	}
	return nil
}

// medians returns the first of several tables of one part, with each value the median of all.
func medians(tables []*part) *part {
	for _, r := range tables[0].Rows {
		for key := range r.Values {
			var all []float64
			for _, t := range tables {
				if v, has := t.values(r.Name, r.Pods)[key]; has {
					all = append(all, v)
				}
			}
			slices.Sort(all)
			r.Values[key] = all[len(all)/2]
		}
	}
	return tables[0]
}

// against compares each row with that of a former build, which follows it: the ratio is of the first column.
func (p *part) against(former *part) {
	lead := p.Columns[0]
	p.Columns = slices.DeleteFunc(slices.Clone(p.Columns), func(c column) bool { return c.key == "ratio" })
	p.Columns = append(p.Columns, column{"ratio", lead.head + " ratio", 2})
	var rows []row
	for _, r := range p.Rows {
		was := former.values(r.Name, r.Pods)
		delete(r.Values, "ratio")
		delete(was, "ratio")
		if r.Peer = ""; was == nil || r.Name == "budget" {
			rows = append(rows, r)
			continue
		}
		if was[lead.key] > 0 {
			r.Peer, r.Values["ratio"] = "former", r.Values[lead.key]/was[lead.key]
		}
		rows = append(rows, r, row{Name: r.Name + ", former", Pods: r.Pods, Values: was})
	}
	p.Rows = rows
}

// grid returns the cells of p with their heads: ratio and peer first, the number of pods if a row has one, a dash for missing values.
func (p *part) grid() [][]string {
	grid := make([][]string, 1+len(p.Rows))
	add := func(head string, cell func(row) string) {
		grid[0] = append(grid[0], head)
		for i, r := range p.Rows {
			grid[i+1] = append(grid[i+1], cell(r))
		}
	}
	add("", func(r row) string { return r.Name })
	isRatio := func(c column) bool { return c.key == "ratio" }
	if i := slices.IndexFunc(p.Columns, isRatio); i >= 0 {
		add(p.Columns[i].head, p.Columns[i].cell)
		add("to", func(r row) string { return r.Peer })
	}
	if slices.ContainsFunc(p.Rows, func(r row) bool { return r.Pods > 0 }) {
		add("pods", func(r row) string { return cmp.Or(strings.TrimLeft(strconv.Itoa(r.Pods), "0"), "-") })
	}
	for _, c := range p.Columns {
		if !isRatio(c) {
			add(c.head, c.cell)
		}
	}
	return grid
}

// print writes p as a table for a terminal.
func (p *part) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n", p.Title)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, cells := range p.grid() {
		fmt.Fprintln(table, strings.Join(cells, "\t")+"\t")
	}
	err := table.Flush()
	fmt.Fprintln(out, strings.Join(p.Notes, "\n"))
	return err
}

// markdown writes p as a section of a document.
func (p *part) markdown(out io.Writer) {
	fmt.Fprintf(out, "\n## %s\n\n", p.Title)
	for i, cells := range p.grid() {
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintln(out, strings.Repeat("|---", len(cells))+"|")
		}
	}
	if len(p.Notes) > 0 {
		fmt.Fprintf(out, "\n%s\n", strings.Join(p.Notes, "\n"))
	}
}

func (c column) cell(r row) string {
	v, ok := r.Values[c.key]
	if !ok {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', c.decimals, 64)
}
