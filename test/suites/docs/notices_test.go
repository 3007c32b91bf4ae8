package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// notices are where evictd says what it notices and goes on with: directories, and the functions that take
// the text.
var notices = map[string][]string{
	"host/internal/face/inspect":      {"add", "tryDirs"},
	"host/internal/core/choose":       {"Warn", "Error"},
	"host/internal/core/loop":         {"Warn", "Error"},
	"host/internal/core/observe":      {"Warn", "Error"},
	"host/internal/core/wake":         {"Warn", "Error"},
	"host/internal/node/cgroups":      {"Warn", "Error"},
	"host/internal/node/podsource":    {"Warn", "Error"},
	"host/internal/pluginhost/meters": {"Warn"},
	"plugins":                         {"Warn", "Error"},
}

// verbs alone have a text from elsewhere, such as the error of a configuration.
var verbs = regexp.MustCompile(`^(?:%[a-z]|[: ])*$`)

// Each finding and warning stands in the table with what it means, and each row is one that evictd says.
func TestWhatEvictdNoticesIsDocumented(t *testing.T) {
	said := noticed(t)
	if len(said) < 50 {
		t.Fatalf("only %d texts were recognized", len(said))
	}
	_, table, _ := strings.Cut(read(t, filepath.Join(root, "docs/operations.md")), "### What `evictd` notices and goes on with\n")
	table, _, _ = strings.Cut(table, "\n### ")
	var rows []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
				rows = append(rows, m[1])
			}
		}
	}
	for _, text := range said {
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.Contains(text, row) }) {
			t.Errorf("no row of %q", text)
		}
	}
	for _, row := range rows {
		if !slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, row) }) {
			t.Errorf("nothing says %q", row)
		}
	}
}

// noticed returns the constant texts.
func noticed(t *testing.T) (said []string) {
	t.Helper()
	for dir, functions := range notices {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				ast.Inspect(f, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok {
						said = append(said, textsOf(call, functions)...)
					}
					return true
				})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return said
}

// textsOf returns the first constant text of a call of one of the functions, if it has words.
func textsOf(call *ast.CallExpr, functions []string) []string {
	called, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains(functions, called.Sel.Name) {
		return nil
	}
	for _, arg := range call.Args {
		if literal, ok := arg.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && !verbs.MatchString(text) && text != "event" {
				return []string{text}
			}
			return nil
		}
	}
	return nil
}
