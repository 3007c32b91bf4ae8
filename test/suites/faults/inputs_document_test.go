package faults

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
)

func inputTables() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| input | fault | %s | kubelet |\n|---|---|%s---|\n", strings.Join(inputSignals, " | "), strings.Repeat("---|", len(inputSignals)))
	var start strings.Builder
	for _, in := range inputs() {
		for _, f := range inputFaults {
			fmt.Fprintf(&b, "| %s | %s |", in.name, f)
			for _, s := range inputSignals {
				c := newInputCell(in, f, s)
				fmt.Fprintf(&b, " %s |", c.text())
			}
			fmt.Fprintf(&b, " %s |\n", ofKubelet(in, f))
		}
		if in.hangsFromStart() {
			c := newInputCell(in, fromStart, "memory.available")
			fmt.Fprintf(&start, "| %s | %s | %s |\n", in.name, c.text(), ofKubelet(in, fromStart))
		}
	}
	fmt.Fprintf(&b, "\n| input that hangs from the start | memory.available | kubelet |\n|---|---|---|\n%s", start.String())
	return b.String()
}

// ofKubelet says how late a kubelet evicts with the same fault. A pass of its eviction manager gets
// a summary, which asks a runtime with CRI stats for sandboxes, containers, their stats and the
// image filesystem one after the other. A call takes 2 minutes at most (runtimeRequestTimeout), an
// error ends the pass, and the next pass is 10 s later.
func ofKubelet(in input, fault string) string {
	const (
		none    = "none while it lasts"
		another = "another pod may go"
		inTime  = "in time"
	)
	lists := map[string]string{
		slow6: "6 to 16 s", slow20: "20 to 30 s", hangs: none, fromStart: none, errs: none, tooLarge: none,
		oneItem: another, half: another, empty: another, twice: inTime, old: another,
	}
	reclaim := map[string]string{slow6: "6 s later", slow20: "20 s later", hangs: "2 min later"} // before a pod goes for a disk
	switch _, never := in.never[fault]; {
	case never:
		return notPossible
	case in.name == "manifests":
		return "does not read them"
	case in.name == "summary":
		return "makes it"
	case in.name == "kubelet files":
		return "in time, by older figures"
	case in.name == "API server":
		return inTime
	case in.name == "container status" || in.name == "images":
		return cmp.Or(reclaim[fault], inTime)
	case in.name == "cgroup driver":
		return cmp.Or(map[string]string{hangs: "does not start", fromStart: "does not start", errs: "does not start", tooLarge: "does not start"}[fault], inTime)
	case in.name == "pod cgroups" && (fault == errs || fault == empty):
		return another
	case in.name == "runtime" && fault == slow6:
		return "24 to 34 s"
	case in.name == "runtime" && fault == slow20:
		return "80 to 90 s"
	}
	return lists[fault]
}

func TestNoCellOfInputsIsEmpty(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range inputCells() {
		if c.outcome == "" || c.why == "" || ofKubelet(c.input, c.fault) == "" || seen[c.name()] {
			t.Errorf("%s: outcome %q, reason or bound %q, kubelet %q, twice: %v", c.name(), c.outcome, c.why, ofKubelet(c.input, c.fault), seen[c.name()])
		}
		seen[c.name()] = true
	}
	for _, in := range inputs() {
		for _, f := range inputFaults {
			for _, s := range inputSignals {
				if c := newInputCell(in, f, s); !seen[c.name()] {
					t.Errorf("no cell of %s", c.name())
				}
			}
		}
		for _, s := range inputSignals {
			if c := newInputCell(in, hangs, s); !c.tried() && c.outcome != asKubelet && in.hidden[s] == "" {
				t.Errorf("%s: nothing shows that the signal does not read it", c.name())
			}
		}
	}
	if strings.Contains(inputTables(), "|  |") {
		t.Error("the table has an empty cell")
	}
}
