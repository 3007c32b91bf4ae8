package docs

import (
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/harness/document"
)

const (
	architecture = root + "/docs/architecture.md"
	internals    = root + "/host/internal/"
)

// wings are in the order of their imports.
var wings = []string{"ground", "core", "pluginhost", "node", "cluster", "face", "record", "why"}

// The table has each package of the host with the first sentence of its comment.
func TestArchitectureHasThePackages(t *testing.T) {
	found, err := filepath.Glob(internals + "*")
	if err != nil || len(found) != len(wings) {
		t.Errorf("%d wings: %q, %v", len(found), found, err)
	}
	table := "\n| package | what it does |\n|---|---|\n"
	for _, wing := range wings {
		sentences := packages(t, filepath.Join(internals, wing))
		for _, dir := range slices.Sorted(maps.Keys(sentences)) {
			does, ok := strings.CutPrefix(sentences[dir], "Package "+filepath.Base(dir)+" ")
			if !ok {
				t.Errorf("%s: the package comment does not begin with Package %s", dir, filepath.Base(dir))
			}
			table += fmt.Sprintf("| `%s` | %s |\n", strings.TrimPrefix(dir, internals), strings.TrimSuffix(does, "."))
		}
	}
	document.Compare(t, architecture, map[string]string{"packages": table + "\n"})
}

// packages maps each directory with code to the first sentence of its package comment.
func packages(t *testing.T, top string) map[string]string {
	t.Helper()
	sentences := map[string]string{}
	err := filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err == nil {
			sentences[filepath.Dir(path)] += new(doc.Package).Synopsis(f.Doc.Text())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sentences
}

var inTree = regexp.MustCompile(`^(?:deploy|host|plugins|sdk|shared|test)/[\w./-]+$`)

// Paths in backquotes lead to files or directories that exist.
func TestPathsExist(t *testing.T) {
	named := 0
	for _, path := range []string{architecture, root + "/README.md", root + "/CONTRIBUTING.md"} {
		for n, line := range lines(t, path) {
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				if !inTree.MatchString(m[1]) {
					continue
				}
				named++
				if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
					t.Errorf("%s:%d: %v", path, n+1, err)
				}
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d paths were recognized", named)
	}
}
