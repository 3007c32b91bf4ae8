package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

const (
	root   = "../../.."
	parity = root + "/docs/parity/kubelet-parity.md"
	traces = root + "/test/traces*" // of each version
)

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	file   = regexp.MustCompile(`^([\w.-]+(?:/[\w.-]+)+\.(?:go|md|txt))(?::(\w+))?$`)
	trace  = regexp.MustCompile(`^(?:rule|rand)-[\w-]+$`)
)

// The table of parity names files, what is in them and traces, each of which must
// be there: a row that pins nothing is worse than none.
func TestParityNamesWhatExists(t *testing.T) {
	named := 0
	for n, line := range lines(t, parity) {
		for _, m := range quoted.FindAllStringSubmatch(line, -1) {
			var err error
			switch name := m[1]; {
			case trace.MatchString(name):
				err = traceExists(name)
			case file.MatchString(name):
				err = declared(file.FindStringSubmatch(name))
			default:
				continue
			}
			named++
			if err != nil {
				t.Errorf("line %d: %v", n+1, err)
			}
		}
	}
	if named < 200 {
		t.Errorf("only %d names were recognized: the table has another form now", named)
	}
}

// Every rule that was recorded pins something, and every row is pinned.
func TestParityIsComplete(t *testing.T) {
	text := strings.Join(lines(t, parity), "\n")
	files, err := filepath.Glob(traces + "/rule-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".json"); !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s pins nothing", name)
		}
	}
	for section := 1; section <= 22; section++ {
		if !strings.Contains(text, fmt.Sprintf("\n### %d. ", section)) {
			t.Errorf("section %d is missing", section)
		}
	}
	for n, line := range lines(t, parity) {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|---") {
			continue
		}
		if len(cells) != 3 {
			t.Errorf("line %d has %d cells, want 3", n+1, len(cells))
			continue
		}
		pin := strings.TrimSpace(cells[2])
		if pin != "pinned by" && pin != "test" && !strings.Contains(pin, "`") {
			t.Errorf("line %d: %q pins nothing", n+1, pin)
		}
	}
}

func traceExists(name string) error {
	for _, ending := range []string{".json", ".json.gz"} {
		if found, err := filepath.Glob(filepath.Join(traces, name+ending)); err == nil && len(found) == 1 {
			return nil
		}
	}
	return fmt.Errorf("there is no trace %s", name)
}

// declared takes a path and what should be declared in it, "" for the file alone.
func declared(m []string) error {
	path, name := filepath.Join(root, m[1]), m[2]
	if found, _ := filepath.Glob(filepath.Join(root, "host/internal/*", m[1])); len(found) == 1 { // a package of a wing may stand alone
		path = found[0]
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("there is no %s", m[1])
	}
	declaration := regexp.MustCompile(`(?m)^(?:func (?:\([^)]+\) )?|type |const |var |\t)` + name + `\b`)
	if name != "" && !declaration.Match(text) {
		return fmt.Errorf("%s does not declare %s", path, name)
	}
	return nil
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	text := testos.ReadFile(t, path)
	return strings.Split(string(text), "\n")
}
