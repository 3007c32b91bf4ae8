package faults

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/evictd/evictd/test/fakes/broken/fault"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/document"
)

// atOnce bounds the worlds at a time: nearly all of them wait.
const atOnce = 20

// TestMatrix runs every cell. Those that wait longest begin first.
func TestMatrix(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs root: run make test")
	}
	for _, name := range []string{"evictd", "memory", "disk", "pid", "broken"} {
		daemon.Build(t, name)
	}
	all := cells()
	slices.SortStableFunc(all, func(a, b cell) int { return cmp.Compare(b.budget, a.budget) })
	took := tryAll(t, all, (*cell).name, (*cell).run)
	var table strings.Builder
	for _, call := range append(slices.Clone(fault.Calls), fault.Waited) {
		for i, c := range all {
			if c.Call == call {
				fmt.Fprintf(&table, "%-10s %-28s %-14s %-7s %-9s %6.1f s of %.2f s (%s)\n", c.Call, c.row(), c.who, c.Base, c.outcome, took[i].Seconds(), c.budget.Seconds(), c.sum)
			}
		}
	}
	t.Logf("every call in every way: outcome, time it took, budget\n%s", table.String())
}

func TestTheDocumentHasTheMatrix(t *testing.T) {
	document.Compare(t, "../../../docs/fault-matrix.md", map[string]string{"matrix": tables(), "inputs": inputTables()})
}

func tables() string {
	all := cells()
	find := func(who, base string, call fault.Call, row string) string {
		for _, c := range all {
			if c.who == who && (base == "" || c.Base == base) && c.Call == call && c.row() == row {
				return fmt.Sprintf("%s; %s", c.outcome, c.sum)
			}
		}
		return ""
	}
	var b strings.Builder
	rows := func(columns ...string) func(call fault.Call, row string, cells ...string) {
		fmt.Fprintf(&b, "\n| call | fault | %s |\n|---|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
		return func(call fault.Call, row string, cells ...string) {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", call, row, strings.Join(cells, " | "))
		}
	}
	b.WriteString("\n## A built-in plugin, and a custom one beside it\n")
	row := rows("built-in", "custom", "custom, on a socket")
	for i, c := range all {
		if c.who == builtin && (c.Base == "memory" || c.Call == fault.Reclaim) && i < len(all) {
			row(c.Call, c.row(), find(builtin, "", c.Call, c.row()), find(custom, "", c.Call, c.row()), find(socket, "", c.Call, c.row()))
		}
	}
	b.WriteString("\n## The only observer of a signal of its own\n")
	row = rows("only observer")
	for _, c := range all {
		if c.who == only {
			row(c.Call, c.row(), find(only, "", c.Call, c.row()))
		}
	}
	b.WriteString("\n## A custom observer of nodefs and of tasks beside the built-in one\n")
	row = rows("disk", "pid")
	for _, c := range all {
		if c.who == custom && c.Base == "pid" {
			row(c.Call, c.row(), find(custom, "disk", c.Call, c.row()), find(custom, "pid", c.Call, c.row()))
		}
	}
	b.WriteString("\n## The only observer of nodefs and of tasks\n")
	row = rows("disk", "pid")
	for _, c := range all {
		if c.who == builtin && c.Base == "pid" {
			row(c.Call, c.row(), find(builtin, "disk", c.Call, c.row()), find(builtin, "pid", c.Call, c.row()))
		}
	}
	b.WriteString("\n## Three shortages of memory in a row, with a custom plugin\n\n| what goes wrong | pod chosen, each time |\n|---|---|\n")
	for _, r := range rowsOfShortages() {
		if len(r) > 0 {
			fmt.Fprintf(&b, "| %s | at most %v s later than without |\n", r.faults(), lateness.Seconds())
		}
	}
	return b.String()
}

func TestNoCellIsEmpty(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cells() {
		if c.outcome == "" || c.sum == "" || seen[c.name()] {
			t.Errorf("%s: outcome %q, budget %q, twice: %v", c.name(), c.outcome, c.sum, seen[c.name()])
		}
		seen[c.name()] = true
	}
	for _, call := range fault.Calls {
		for _, kind := range fault.Kinds {
			for _, who := range []string{builtin, custom} {
				if !slices.ContainsFunc(cells(), func(c cell) bool { return c.Call == call && c.Kind == kind && c.who == who }) {
					t.Errorf("no cell of %s, %s, %s", call, kind, who)
				}
			}
		}
	}
	if strings.Contains(tables(), "|  |") {
		t.Error("the table has an empty cell")
	}
}

// tryAll runs subtests, some at once, and returns what each of them took.
func tryAll[Try, Took any](t *testing.T, all []Try, name func(*Try) string, run func(*Try, *testing.T) Took) []Took {
	t.Helper()
	took := make([]Took, len(all))
	var wg sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i := range all {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			t.Run(name(&all[i]), func(t *testing.T) { took[i] = run(&all[i], t) })
		})
	}
	wg.Wait()
	return took
}
