package host

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "renew testdata/surface.txt")

// What programs build on changed by the way. What is exported, with the fields and methods
// of what is an alias of an internal type, is a list: who changes it says so.
//
//	go test ./host -run Surface -rewrite
func TestSurface(t *testing.T) {
	const golden = "testdata/surface.txt"
	s := surface{set: token.NewFileSet()}
	s.add(t, ".", func(string) bool { return true })
	slices.Sort(s.lines)
	got := strings.Join(slices.Compact(s.lines), "\n") + "\n"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("exported identifiers (-%s +now); with -rewrite they are listed anew:\n%s", golden, diff)
	}
}

// A surface lists the exports of a package, a line each.
type surface struct {
	set   *token.FileSet
	lines []string
}

// add adds what the package in dir exports of the names that are wanted.
func (s *surface) add(t *testing.T, dir string, wanted func(name string) bool) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(s.set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				s.function(d, wanted)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if of, ok := spec.(*ast.TypeSpec); ok {
						s.typ(t, tree, of, wanted)
					} else if of, ok := spec.(*ast.ValueSpec); ok && dir == "." {
						s.say(d.Tok.String(), "", of.Names...)
					}
				}
			}
		}
	}
}

func (s *surface) function(d *ast.FuncDecl, wanted func(string) bool) {
	of := ""
	if d.Recv != nil {
		of = strings.TrimPrefix(s.text(d.Recv.List[0].Type), "*")
		if !ast.IsExported(of) || !wanted(of) {
			return
		}
		of += "."
	} else if !wanted(d.Name.Name) {
		return
	}
	if d.Name.IsExported() {
		s.lines = append(s.lines, "func "+of+d.Name.Name+strings.TrimPrefix(s.text(d.Type), "func"))
	}
}

func (s *surface) typ(t *testing.T, tree *ast.File, spec *ast.TypeSpec, wanted func(string) bool) {
	t.Helper()
	name := spec.Name.Name
	if !spec.Name.IsExported() || !wanted(name) {
		return
	}
	switch of := spec.Type.(type) {
	case *ast.StructType:
		s.lines = append(s.lines, "type "+name+" struct")
		for _, f := range of.Fields.List {
			if len(f.Names) == 0 {
				s.lines = append(s.lines, "field "+name+": "+s.text(f.Type))
			}
			s.say("field "+name+".", " "+s.text(f.Type), f.Names...)
		}
	case *ast.InterfaceType:
		s.lines = append(s.lines, "type "+name+" interface")
		for _, f := range of.Methods.List {
			s.say("method "+name+".", strings.TrimPrefix(s.text(f.Type), "func"), f.Names...)
		}
	case *ast.SelectorExpr:
		s.lines = append(s.lines, "type "+name+" = "+s.text(of))
		for _, i := range tree.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if in, ours := strings.CutPrefix(path, "github.com/evictd/evictd/host/"); ours && filepath.Base(path) == s.text(of.X) {
				s.add(t, in, func(name string) bool { return name == of.Sel.Name })
			}
		}
	default:
		s.lines = append(s.lines, "type "+name+" "+s.text(of))
	}
}

// say adds a line for each of the names that is exported.
func (s *surface) say(what, after string, names ...*ast.Ident) {
	for _, n := range names {
		if n.IsExported() {
			s.lines = append(s.lines, fmt.Sprintf("%s%s%s", what, n.Name, after))
		}
	}
}

// text returns the source of a node, in one line.
func (s *surface) text(n ast.Node) string {
	var b strings.Builder
	_ = printer.Fprint(&b, s.set, n) // of what was parsed
	return strings.Join(strings.Fields(b.String()), " ")
}
