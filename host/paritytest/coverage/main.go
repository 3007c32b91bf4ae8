// Coverage prints for each package the share of statements covered by a coverage profile, and the
// uncovered ones. It fails if a package is below the minimum. Files without a counterpart in the
// kubelet can be left out: no scenario of both reaches them.
//
//	go test -coverpkg=... -coverprofile=FILE . && go run ./coverage -min 95 -without a.go,b.go FILE
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// block is a run of statements in a file.
type block struct {
	place      string
	statements int
}

func main() {
	minimum := flag.Float64("min", 0, "the least percentage that a package may have")
	without := flag.String("without", "", "`files` that do not count, by name and separated by commas")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: coverage [-min PERCENT] [-without FILES] PROFILE")
		os.Exit(2)
	}
	low, err := run(os.Stdout, flag.Arg(0), *minimum, strings.Split(*without, ","))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if low {
		fmt.Fprintf(os.Stderr, "coverage is below %.1f%%\n", *minimum)
		os.Exit(1)
	}
}

// run reports whether a package is below minimum.
func run(out io.Writer, profile string, minimum float64, without []string) (bool, error) {
	f, err := os.Open(profile)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	ran, err := parse(f)
	if err != nil {
		return false, fmt.Errorf("%s: %w", profile, err)
	}
	total, covered, missed := map[string]int{}, map[string]int{}, map[string][]string{}
	for b, yes := range ran {
		if file, _, _ := strings.Cut(path.Base(b.place), ":"); slices.Contains(without, file) {
			continue
		}
		pkg := path.Dir(b.place)
		total[pkg] += b.statements
		if yes {
			covered[pkg] += b.statements
		} else {
			missed[pkg] = append(missed[pkg], path.Base(b.place))
		}
	}
	low := len(total) == 0
	for _, pkg := range slices.Sorted(maps.Keys(total)) {
		percent := 100 * float64(covered[pkg]) / float64(total[pkg])
		low = low || percent < minimum
		if _, err := fmt.Fprintf(out, "coverage of %s: %.1f%% of %d statements\n", pkg, percent, total[pkg]); err != nil {
			return false, err
		}
		slices.Sort(missed[pkg])
		for _, place := range missed[pkg] {
			if _, err := fmt.Fprintf(out, "  not run: %s\n", place); err != nil {
				return false, err
			}
		}
	}
	return low, nil
}

// parse parses a profile: after the mode, lines "file:from,to statements count". A block occurs
// once for each test binary.
func parse(r io.Reader) (map[block]bool, error) {
	ran := map[block]bool{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "mode:") {
			continue
		}
		var b block
		var count int
		if _, err := fmt.Sscan(line, &b.place, &b.statements, &count); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		ran[b] = ran[b] || count > 0
	}
	return ran, lines.Err()
}
