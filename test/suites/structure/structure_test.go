// Package structure_test holds the shape of the code to the rules of CONTRIBUTING.md that
// no linter knows: how large a type and a package may be, and who owns what.
package structure_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../../.."
	module = "github.com/evictd/evictd/"
	loop   = "host/internal/core/loop"
)

var rewrite = flag.Bool("rewrite", false, "lower the figures in testdata to what was found")

// A rule has no figure above most, but for the exceptions in testdata: a line each. Without a
// step an exception has to be changed with the figure, so that it cannot grow back. With a step
// it is a limit, a multiple of the step. The limit for a figure is the least one that leaves room.
// A limit is too high when it is two steps above that, so that a small change fails neither way.
type rule struct {
	name       string
	most       int
	hint       string
	figures    map[string]int
	step, room int
}

// limit returns what -rewrite writes for a figure.
func (r rule) limit(figure int) int {
	step := max(1, r.step)
	return (figure + r.room + step - 1) / step * step
}

// fakes stand in for a large gRPC service: their methods are the service's.
var fakes = []string{"test/fakes/fakecri.Server"}

// A file is parsed and not generated.
type file struct {
	path, dir string
	pkg       string // dir, with _test for a package beside the one that is tested
	test      bool
	lines     int
	tree      *ast.File
}

func TestShape(t *testing.T) {
	all := files(t)
	methods, inFiles, fields := types(all)
	packages, holders, mutexes := map[string]int{}, map[string]int{}, map[string]int{}
	for _, f := range all {
		if f.test {
			continue
		}
		for spec := range specs(f.tree) {
			if holdsLoop(f, spec.Type) {
				holders[f.dir+"."+spec.Name.Name]++
			}
		}
		if strings.HasPrefix(f.path, "host/") {
			for _, group := range f.tree.Comments {
				mutexes[f.dir] += len(held.FindAllString(strings.Join(strings.Fields(group.Text()), " "), -1))
			}
			if !strings.HasPrefix(f.path, "host/paritytest/") && !strings.HasPrefix(f.path, "host/kubelet/") {
				packages[f.dir] += f.lines
			}
		}
	}
	check(t, "testdata/exceptions.txt",
		rule{"methods", 30, "a type with so many methods is two: find the part of its state that the others do not need", methods, 0, 0},
		rule{"files", 3, "a file that is a slice of one type's methods says that the type is two", inFiles, 0, 0},
		rule{"lines", 2500, "find the part that can be a package of its own", packages, 0, 0},
		rule{"holders", 0, "what runs beside the loop gets values and returns values, it never holds the loop", holders, 0, 0},
		rule{"mutexes", 0, "give the state an owner, or put the fields and their mutex into a type of their own", mutexes, 0, 0},
		rule{"fields", 20, "a struct with so many fields is two: group the fields that are set and read together", fields, 0, 0})
}

// types returns how many methods each type has, in how many files, and how many fields.
// With the methods count functions of the type's package that take a pointer to it as the
// first parameter of a type of the package, and what embedded types have: a method that
// became one of these still shares the type's state. Values can be passed to any number of
// functions.
func types(all []file) (methods, inFiles, fields map[string]int) {
	fields = map[string]int{}
	own, at, embedded, declared := map[string]int{}, map[string]map[string]bool{}, map[string][]string{}, map[string]file{}
	for _, f := range all {
		for spec := range specs(f.tree) {
			name := f.pkg + "." + spec.Name.Name
			declared[name] = f
			if s, ok := spec.Type.(*ast.StructType); ok {
				fields[name] = s.Fields.NumFields()
				for _, field := range s.Fields.List {
					if field.Names == nil {
						embedded[name] = append(embedded[name], f.full(field.Type))
					}
				}
			}
		}
	}
	for _, f := range all {
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if fn.Recv == nil {
				if name := f.taken(fn.Type.Params.List, declared); !f.test || declared[name].test {
					own[name]++
				}
				continue
			}
			name := f.full(fn.Recv.List[0].Type)
			own[name]++
			if at[name] == nil {
				at[name] = map[string]bool{}
			}
			at[name][f.path] = true
		}
	}
	delete(own, "") // of functions that take none
	var sum func(name string) int
	sum = func(name string) int {
		n := own[name]
		for _, e := range embedded[name] {
			if !slices.Contains(fakes, e) {
				n += sum(e)
			}
		}
		return n
	}
	methods, inFiles = map[string]int{}, map[string]int{}
	for name := range declared {
		if !slices.Contains(fakes, name) {
			methods[name], inFiles[name] = sum(name), len(at[name])
		}
	}
	return methods, inFiles, fields
}

// taken returns the type of the package for which a function with these parameters
// counts, "" if there is none.
func (f file) taken(params []*ast.Field, declared map[string]file) string {
	for _, p := range params {
		if name := f.full(p.Type); declared[name].pkg == f.pkg {
			if _, pointer := p.Type.(*ast.StarExpr); !pointer {
				name = ""
			}
			return name
		}
	}
	return ""
}

// full returns the name of a type of this repository with its package, "" for others.
func (f file) full(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return f.full(e.X)
	case *ast.IndexExpr:
		return f.full(e.X)
	case *ast.IndexListExpr:
		return f.full(e.X)
	case *ast.Ident:
		return f.pkg + "." + e.Name
	case *ast.SelectorExpr:
		for _, i := range f.tree.Imports {
			at, _ := strconv.Unquote(i.Path.Value)
			name := path.Base(at)
			if i.Name != nil {
				name = i.Name.Name
			}
			if dir, ours := strings.CutPrefix(at, module); ours && fmt.Sprint(e.X) == name {
				return dir + "." + e.Sel.Name
			}
		}
	}
	return ""
}

// held finds comments that say what a caller has to hold: an owner needs none.
var held = regexp.MustCompile(`\b([mM]utex|mu)\b[^.]{0,40}\bheld\b|\b(holds?|holding) (\w+'s |the )?(mu|mutex)\b`)

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

// check compares the figures of all rules with those that file has.
func check(t testing.TB, file string, rules ...rule) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var kept strings.Builder
	exceptions := map[string]int{}
	for line := range strings.Lines(string(raw)) {
		at := strings.LastIndexByte(line, ' ')
		if exceptions[line[:at]], err = strconv.Atoi(strings.TrimSpace(line[at:])); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	for _, r := range rules {
		for _, name := range slices.Sorted(maps.Keys(r.figures)) {
			key, n := r.name+" "+name, r.figures[name]
			exception, allowed := exceptions[key]
			switch {
			case n <= r.most:
				continue
			case !allowed:
				t.Errorf("%s is %d, want at most %d: %s", key, n, r.most, r.hint)
				continue
			case n > exception:
				t.Errorf("%s is %d, more than the %d in %s: %s", key, n, exception, file, r.hint)
			case exception%max(1, r.step) != 0:
				t.Errorf("%s %d in %s is not a multiple of %d", key, exception, file, r.step)
			case *rewrite:
				exception = min(exception, r.limit(n))
			case exception > n && exception >= r.limit(n)+2*r.step:
				t.Errorf("%s is %d, less than the %d in %s: tighten it with -rewrite", key, n, exception, file)
			}
			fmt.Fprintln(&kept, key, exception)
			delete(exceptions, key)
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(kept.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(exceptions)) {
		t.Errorf("%s needs no exception in %s any longer: take it out with -rewrite", key, file)
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
		if !strings.HasSuffix(at, ".go") {
			return nil
		}
		tree, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", at, err)
		}
		if !ast.IsGenerated(tree) {
			f := file{path: at, dir: path.Dir(at), test: strings.HasSuffix(at, "_test.go"), lines: set.File(tree.FileStart).LineCount() - 1, tree: tree}
			f.pkg = f.dir
			if strings.HasSuffix(tree.Name.Name, "_test") {
				f.pkg += "_test"
			}
			all = append(all, f)
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

// specs yields the declarations of types in a file.
func specs(tree *ast.File) iter.Seq[*ast.TypeSpec] {
	return func(yield func(*ast.TypeSpec) bool) {
		for _, d := range tree.Decls {
			if d, ok := d.(*ast.GenDecl); ok {
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && !yield(s) {
						return
					}
				}
			}
		}
	}
}

// holdsLoop reports whether a type has a *loop.Loop in it. A function may be given one.
func holdsLoop(f file, typ ast.Expr) bool {
	found := false
	ast.Inspect(typ, func(n ast.Node) bool {
		star, ok := n.(*ast.StarExpr)
		if !ok {
			_, function := n.(*ast.FuncType)
			return !function
		}
		switch x := star.X.(type) {
		case *ast.Ident:
			found = found || x.Name == "Loop" && f.dir == loop
		case *ast.SelectorExpr:
			of, ok := x.X.(*ast.Ident)
			found = found || ok && of.Name == "loop" && x.Sel.Name == "Loop"
		}
		return true
	})
	return found
}
