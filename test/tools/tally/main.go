// Command tally turns the events of `go test -json` into a short report: a line
// for each package, the whole output of what failed, the attributes that tests give, and a
// closing count.
//
// It is not a test runner: it only reads what one prints.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// event is one line of `go test -json` (cmd/test2json).
type event struct {
	Action, Package, Test, Output, ImportPath, Key, Value string
	Elapsed                                               float64
}

type tally struct {
	verbose                 bool
	passed, failed, skipped int
	broken                  int // packages that failed without a failed test
	output                  map[string][]string
	failedTests             map[string]bool
	skips                   []string
}

func main() {
	verbose := flag.Bool("v", false, "show the output of all tests")
	flag.Parse()
	t := tally{verbose: *verbose, output: map[string][]string{}, failedTests: map[string]bool{}}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text()) // go itself speaking
			continue
		}
		t.add(e)
	}
	if err := in.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	for _, skip := range t.skips {
		fmt.Println("skipped:", skip)
	}
	t.keep(os.Getenv("TALLY_FILE"))
	fmt.Printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed+t.broken, t.skipped)
	if t.failed+t.broken > 0 || t.passed == 0 {
		os.Exit(1)
	}
}

func (t *tally) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if t.verbose && e.Test != "" || e.Action == "build-output" {
			fmt.Print(e.Output)
			return
		}
		t.output[key] = append(t.output[key], e.Output)
	case "attr": // what a test has to say even if it passes
		fmt.Printf("%s: %s: %s\n", e.Test, e.Key, e.Value)
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.endPackage(e)
			return
		}
		t.endTest(e)
	}
}

func (t *tally) endTest(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "pass":
		t.passed++
	case "skip":
		t.skipped++
		t.skips = append(t.skips, fmt.Sprintf("%s: %s", key, lastLine(t.output[key])))
	case "fail":
		t.failed++
		t.failedTests[e.Package] = true
		fmt.Print(strings.Join(t.output[key], ""))
	}
	delete(t.output, key)
}

func (t *tally) endPackage(e event) {
	key := e.Package + " "
	switch e.Action {
	case "skip": // a package without tests is nothing to count
	case "pass":
		fmt.Printf("ok    %s  %.1f s\n", e.Package, e.Elapsed)
	default:
		if !t.failedTests[e.Package] { // it did not build, or died: show all that is known
			t.broken++
			for name, lines := range t.output {
				if strings.HasPrefix(name, key) && name != key {
					fmt.Print(strings.Join(lines, ""))
				}
			}
		}
		fmt.Print(strings.Join(t.output[key], ""))
		fmt.Printf("FAIL  %s  %.1f s\n", e.Package, e.Elapsed)
	}
	delete(t.output, key)
}

// keep appends the counts to a file, for one who adds up several runs.
func (t *tally) keep(path string) {
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, t.passed, t.failed+t.broken, t.skipped)
		_ = f.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
}

// lastLine is where t.Skip puts its reason, before the line that ends the test.
func lastLine(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if text := strings.TrimSpace(line); !strings.HasPrefix(text, "---") && text != "" {
			return text
		}
	}
	return ""
}
