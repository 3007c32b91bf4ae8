// Package structure_test holds the shape of the code to the rules of CONTRIBUTING.md that
// no linter knows: how large a type and a package may be, and who owns what.
package structure_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root = "../../.."
	// mostMethods and mostFiles are of one type: a type whose methods fill more is two.
	mostMethods = 30
	mostFiles   = 3
	// mostPackageLines are of one package of the host, mostHostLines of all of them.
	mostPackageLines = 2500
	mostHostLines    = 21_000
)

// allowed are places that break a rule, with how far they may: the figure is not to
// grow, and who mends one takes it out.
var allowed = map[string]map[string]int{
	"methods": {},
	"files": {
		"host/paritytest/generate.maker":  6,
		"host/paritytest/kubelet.Kubelet": 5,
		"shared/nodefs.FS":                7,
		"shared/nodefs.Hierarchy":         6,
		"test/harness/stack.Stack":        5,
	},
	"package lines": {},
	"host lines": {
		"host": 33400,
	},
	"holders": {
		"host.Manager": 1, // who makes it, runs it and ends it
	},
	"held mutexes": {},
}

// fakes stand in for a large gRPC service: their methods are the service's.
var fakes = []string{"test/fakes/fakecri.Server"}

// A file is a parsed file that is neither a test nor generated.
type file struct {
	path, dir string
	lines     int
	tree      *ast.File
}

func TestMethods(t *testing.T) {
	methods, at := map[string]int{}, map[string]map[string]bool{}
	for _, f := range files(t) {
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			name := f.dir + "." + receiver(fn.Recv.List[0].Type)
			if slices.Contains(fakes, name) {
				continue
			}
			if at[name] == nil {
				at[name] = map[string]bool{}
			}
			methods[name]++
			at[name][f.path] = true
		}
	}
	inFiles := map[string]int{}
	for name, paths := range at {
		inFiles[name] = len(paths)
	}
	check(t, "methods", methods, mostMethods, "a type with so many methods is two: find the part of its state that the others do not need")
	check(t, "files", inFiles, mostFiles, "a file that is a slice of one type's methods says that the type is two")
}

func TestPackageLines(t *testing.T) {
	packages, all := map[string]int{}, map[string]int{}
	for _, f := range files(t) {
		if strings.HasPrefix(f.path, "host/") && !strings.HasPrefix(f.path, "host/paritytest/") && !strings.HasPrefix(f.path, "host/kubelet/") {
			packages[f.dir] += f.lines
			all["host"] += f.lines
		}
	}
	check(t, "package lines", packages, mostPackageLines, "find the part that can be a package of its own")
	check(t, "host lines", all, mostHostLines, "find what is there twice")
}

func TestNobodyHoldsTheLoop(t *testing.T) {
	holders := map[string]int{}
	for _, f := range files(t) {
		for name, s := range structs(f.tree) {
			for _, field := range s.Fields.List {
				if holdsLoop(f, field.Type) {
					holders[f.dir+"."+name]++
				}
			}
		}
	}
	check(t, "holders", holders, 0, "what runs beside the loop gets values and returns values, it never holds the loop")
}

// held finds comments that say what a caller has to hold: an owner needs none.
var held = regexp.MustCompile(`\b([mM]utex|mu)\b[^.]{0,40}\bheld\b|\b(holds?|holding) (\w+'s |the )?(mu|mutex)\b`)

func TestNoCommentSaysThatAMutexIsHeld(t *testing.T) {
	says := map[string]int{}
	for _, f := range files(t) {
		if !strings.HasPrefix(f.path, "host/") {
			continue
		}
		for _, group := range f.tree.Comments {
			says[f.dir] += len(held.FindAllString(strings.Join(strings.Fields(group.Text()), " "), -1))
		}
	}
	check(t, "held mutexes", says, 0, "give the state an owner, or put the fields and their mutex into a type of their own")
}

func TestWhatSaysThatAMutexIsHeld(t *testing.T) {
	for text, want := range map[string]bool{
		"take is give's counterpart. The mutex is held.": true,
		"sees is sight with the mutex held.":             true,
		"The caller holds mu.":                           true,
		"a cgroup whose lock is held by the kernel":      false,
		"mu guards the fields below":                     false,
	} {
		if held.MatchString(text) != want {
			t.Errorf("%q says so: %v", text, !want)
		}
	}
}

// check compares figures with the most that a rule wants, and with what is allowed.
func check(t *testing.T, rule string, figures map[string]int, most int, hint string) {
	t.Helper()
	exceptions := maps.Clone(allowed[rule])
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		n, exception := figures[name], exceptions[name]
		delete(exceptions, name)
		switch {
		case exception > 0 && n <= most:
			t.Errorf("%s: %s has %d, which the rule allows: take its exception out", rule, name, n)
		case exception > 0 && n > exception:
			t.Errorf("%s: %s has %d, more than the %d of its exception: %s", rule, name, n, exception, hint)
		case exception == 0 && n > most:
			t.Errorf("%s: %s has %d, want at most %d: %s", rule, name, n, most, hint)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exceptions)) {
		t.Errorf("%s: there is no %s any more: take its exception out", rule, name)
	}
}

func files(t *testing.T) []file {
	t.Helper()
	var all []file
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); at != "." && (strings.HasPrefix(base, ".") || base == "bin" || base == "testdata" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(at, ".go") || strings.HasSuffix(at, "_test.go") {
			return nil
		}
		tree, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", at, err)
		}
		if !ast.IsGenerated(tree) {
			all = append(all, file{at, path.Dir(at), set.File(tree.FileStart).LineCount() - 1, tree})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Fatalf("%d files were found", len(all))
	}
	return all
}

// receiver is the name of the type that a method is of.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return fmt.Sprintf("%T", e)
	}
}

// structs are the struct types of a file by name.
func structs(tree *ast.File) map[string]*ast.StructType {
	all := map[string]*ast.StructType{}
	ast.Inspect(tree, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok {
			if s, ok := spec.Type.(*ast.StructType); ok {
				all[spec.Name.Name] = s
			}
		}
		return true
	})
	return all
}

// holdsLoop reports whether a field of the type has a *loop.Loop in it. A function may
// be given one.
func holdsLoop(f file, field ast.Expr) bool {
	found := false
	ast.Inspect(field, func(n ast.Node) bool {
		star, ok := n.(*ast.StarExpr)
		if !ok {
			_, function := n.(*ast.FuncType)
			return !function
		}
		switch x := star.X.(type) {
		case *ast.Ident:
			found = found || x.Name == "Loop" && f.dir == "host/internal/loop"
		case *ast.SelectorExpr:
			of, ok := x.X.(*ast.Ident)
			found = found || ok && of.Name == "loop" && x.Sel.Name == "Loop"
		}
		return true
	})
	return found
}
