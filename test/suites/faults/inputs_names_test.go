package faults

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// answersPackage has the type of what evictd reads before it decides.
const answersPackage = "github.com/evictd/evictd/shared/answers"

// Each input in the code has a row, so that no new one is left out.
func TestEachInputHasARow(t *testing.T) {
	var rows []string
	for _, in := range inputs() {
		rows = append(rows, in.name)
	}
	for _, dir := range []string{"../../../host", "../../../plugins/disk"} {
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, input := range inputsIn(file) {
				if !slices.Contains(rows, input) {
					t.Errorf("%s: input %q has no row in inputs(): want one of %q, as a literal", name, input, rows)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// inputsIn returns the names of the inputs that a file makes: a string argument of answers.New, or
// the field Name in one. A name that is no literal is "".
func inputsIn(file *ast.File) (names []string) {
	local := ""
	for _, i := range file.Imports {
		if at, _ := strconv.Unquote(i.Path.Value); at == answersPackage {
			local = "answers"
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || local == "" {
			return true
		}
		fun := call.Fun
		switch f := fun.(type) { // with types, as in New[T]
		case *ast.IndexExpr:
			fun = f.X
		case *ast.IndexListExpr:
			fun = f.X
		}
		if s, ok := fun.(*ast.SelectorExpr); ok && s.Sel.Name == "New" {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == local {
				names = append(names, nameIn(call.Args))
			}
		}
		return true
	})
	return names
}

// nameIn returns the first name among the arguments of a call.
func nameIn(args []ast.Expr) string {
	for _, arg := range args {
		if u, ok := arg.(*ast.UnaryExpr); ok {
			arg = u.X
		}
		switch a := arg.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(a.Value); err == nil && a.Kind == token.STRING {
				return text
			}
		case *ast.CompositeLit:
			for _, e := range a.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Name" {
						return nameIn([]ast.Expr{kv.Value})
					}
				}
			}
		}
	}
	return ""
}

func TestInputsAreFoundInCode(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", `package p
import a "`+answersPackage+`"
var (
	_ = a.New[int]("containers", 1)
	_ = a.New(ctx, &a.Options{Age: 1, Name: "images"})
	_ = a.New(name)
	_ = b.New("other")
)`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := inputsIn(file), []string{"containers", "images", ""}; !slices.Equal(got, want) {
		t.Errorf("inputs %q, want %q", got, want)
	}
}
