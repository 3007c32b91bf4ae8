// Command tally turns the events of `go test -json` into a short report: a line
// for each package, the whole output of what failed, the attributes that tests give, the end of
// what failed once more where all output is shown, and a closing count. It appends to the files that TALLY_FILE and TALLY_FAILURES name, for one
// who makes several runs: the counts, and the end of what each failed test printed.
//
// It is not a test runner: it only reads what one prints.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
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
	skips, failures         []string
}

// lastLines of a failed test tell why, mostly.
const lastLines = 50

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
	t.keep()
	if t.verbose { // what failed stands far above
		fmt.Print(strings.Join(t.failures, ""))
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed+t.broken, t.skipped)
	if t.failed+t.broken > 0 || t.passed == 0 {
		os.Exit(1)
	}
}

func (t *tally) add(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if t.live(e) {
			fmt.Print(e.Output)
		}
		if e.Action == "output" {
			t.output[key] = append(t.output[key], e.Output)
		}
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

// live reports whether an event's output is shown as it comes.
func (t *tally) live(e event) bool { return t.verbose && e.Test != "" || e.Action == "build-output" }

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
		t.showFailure(e, t.output[key])
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
					t.showFailure(event{Package: e.Package, Test: strings.TrimPrefix(name, key)}, lines)
				}
			}
		}
		t.showFailure(event{Package: e.Package}, t.output[key])
		fmt.Printf("FAIL  %s  %.1f s\n", e.Package, e.Elapsed)
	}
	delete(t.output, key)
}

// showFailure prints what a test, or a package beside its tests, has printed, unless
// it stands there already.
func (t *tally) showFailure(e event, lines []string) {
	if !t.live(e) {
		fmt.Print(strings.Join(lines, ""))
	}
	if e.Test == "" && t.failedTests[e.Package] {
		return
	}
	last := lines[max(0, len(lines)-lastLines):]
	t.failures = append(t.failures, fmt.Sprintf("failed: %s %s\n%s", e.Package, e.Test, strings.Join(last, "")))
}

func (t *tally) keep() {
	counts := fmt.Sprintln(t.passed, t.failed+t.broken, t.skipped)
	for path, text := range map[string]string{os.Getenv("TALLY_FILE"): counts, os.Getenv("TALLY_FAILURES"): strings.Join(t.failures, "")} {
		if err := appendTo(path, text); err != nil {
			fmt.Fprintln(os.Stderr, "tally:", err)
			os.Exit(1)
		}
	}
}

// appendTo does nothing without a path.
func appendTo(path, text string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
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
