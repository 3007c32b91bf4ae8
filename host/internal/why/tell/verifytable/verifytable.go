// Package verifytable presents the report of `evictctl plugins verify`.
package verifytable

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/conformance"
)

// Text returns the plugin, a line for each check with details of those that did not simply
// pass, and a summary.
func Text(r *conformance.Report) []byte {
	var b bytes.Buffer
	if p := r.Plugin; p != nil {
		fmt.Fprintf(&b, "plugin %s, version %s\n", printable.Text(p.Name), printable.Text(cmp.Or(p.Version, "-")))
		for _, s := range p.Signals {
			fmt.Fprintf(&b, "  %s: %s", printable.Text(string(s.Signal)), strings.Join(s.Offers, ", "))
			if len(s.Steps) > 0 {
				fmt.Fprintf(&b, " (%s)", printable.Text(strings.Join(s.Steps, ", ")))
			}
			b.WriteByte('\n')
		}
		b.WriteByte('\n')
	}
	for i := 0; i < len(r.Checks); {
		n := alike(r.Checks[i:])
		writeCheck(&b, &r.Checks[i], n)
		i += n
	}
	if len(r.Only) > 0 {
		fmt.Fprintf(&b, "\nonly the checks of %s were asked for\n", strings.Join(r.Only, ", "))
	}
	if f := r.Reclaimed; f != nil {
		fmt.Fprintf(&b, "\n%d bytes and %d inodes reclaimed on this machine in %d calls, as the plugin says\n", f.Bytes, f.Inodes, f.Calls)
	}
	fmt.Fprintf(&b, "\n%d checks in %s: %d ok, %d failed, %d skipped, %d with a note\n", len(r.Checks), r.Took.Round(10*time.Millisecond),
		r.Count(conformance.Passed), r.Count(conformance.Failed), r.Count(conformance.Skipped), r.Count(conformance.Note))
	return b.Bytes()
}

// alike returns how many of the first checks were skipped for the same reason. They share a line.
func alike(checks []conformance.Check) int {
	n := 1
	for n < len(checks) && checks[0].Result == conformance.Skipped && checks[n].Result == conformance.Skipped && checks[n].Seen == checks[0].Seen {
		n++
	}
	return n
}

func writeCheck(b *bytes.Buffer, c *conformance.Check, n int) {
	name := c.Name
	if n > 1 {
		name = fmt.Sprintf("%s and %d more", name, n-1)
	}

	switch c.Result {
	case conformance.Passed:
		fmt.Fprintf(b, "%-8s %s\n", c.Result, c.Name)
	case conformance.Failed:
		fmt.Fprintf(b, "%-8s %s\n", c.Result, c.Name)
		for _, part := range [][2]string{{"call", c.RPC}, {"input", c.Input}, {"expected", c.Expected}, {"seen", c.Seen}} {
			fmt.Fprintf(b, "           %-9s %s\n", part[0]+":", indented12(part[1]))
		}
	default:
		fmt.Fprintf(b, "%-8s %-34s %s\n", c.Result, name, indented12(c.Seen))
	}
}

func indented12(text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		out = append(out, printable.Text(line))
	}
	return strings.Join(out, "\n"+strings.Repeat(" ", 21))
}
