package tell

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// A pageTable is a table of a page. It is not shown without rows.
type pageTable struct {
	Caption shown
	Heading []pageCell
	Rows    [][]pageCell
	// Cards: on a narrow screen each row is a card.
	Cards bool
	// More is the number of rows beyond rowsShown.
	More int
}

// A pageCell is a cell of a table.
type pageCell struct {
	Text  shown
	Class string
	// Label is the heading of the column, for a narrow screen.
	Label shown
	// Link is the name of the decision on the page to which the cell leads, empty without a link.
	Link string
}

// newPageTable returns a table of rows, the first of which is the heading. Columns of amounts stand on the right.
func newPageTable(caption string, rows [][]string) pageTable {
	if len(rows) < 2 {
		return pageTable{}
	}
	t := pageTable{Caption: show(caption), More: max(0, len(rows)-1-rowsShown)}
	amounts, long := amountColumns(rows), longColumns(rows)
	for _, row := range rows[:min(len(rows), rowsShown+1)] {
		cells := make([]pageCell, len(row))
		for at, text := range row {
			cells[at].Text, cells[at].Label = show(cmp.Or(text, "-")), show(rows[0][at])
			switch {
			case amounts[at]:
				cells[at].Class = "amount"
			case long[at]:
				cells[at].Class = "long"
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	t.Heading, t.Rows = t.Rows[0], t.Rows[1:]
	return t
}

// amount matches an amount with its unit.
var amount = regexp.MustCompile(`^-?[0-9.]+([KMGTPE]i?)?%?( \S{1,12})?$`)

// amountColumns reports for each column whether it has amounts alone, below the heading.
func amountColumns(rows [][]string) []bool {
	columns := make([]bool, len(rows[0]))
	for at := range columns {
		columns[at] = !slices.ContainsFunc(rows[1:], func(row []string) bool {
			return row[at] != "" && row[at] != "-" && !amount.MatchString(row[at])
		})
	}
	return columns
}

// longColumns reports for each column whether a cell has a sentence.
func longColumns(rows [][]string) []bool {
	columns := make([]bool, len(rows[0]))
	for at := range columns {
		columns[at] = slices.ContainsFunc(rows[1:], func(row []string) bool { return len(row[at]) > 60 && strings.Contains(row[at], " ") })
	}
	return columns
}
