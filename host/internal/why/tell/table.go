package tell

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/evictd/evictd/host/internal/ground/printable"
)

// Same is a cell that repeats the one above it and shows as empty; an empty cell shows as "-".
const Same = " "

// Table aligns rows, the first of which is the heading.
func Table(rows [][]string) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if row[i] = printable.Text(cell); cell == "" {
				row[i] = "-"
			}
		}
		_, _ = io.WriteString(w, strings.Join(row, "\t")+"\n") // to memory
	}
	_ = w.Flush()
	return b.Bytes()
}

// FurtherTable returns a table to follow another one, nil if it has no rows.
func FurtherTable(heading []string, rows [][]string) []byte {
	if len(rows) == 0 {
		return nil
	}
	return append([]byte("\n"), Table(slices.Concat([][]string{heading}, rows))...)
}
