package structure_test

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// errorTexts has the files in which an error is found by its text, with why it has no type there.
var errorTexts = map[string]string{
	"host/internal/core/choose/choice.go":               "removes the name that the record has beside the text",
	"host/internal/cluster/victim/kubernetes/answer.go": "an answer of the API server",
	"host/internal/face/inspect/inspect.go":             "a finding is a text",
	"host/internal/face/inspect/signals.go":             "an answer of a plugin, another process",
	"shared/conformance/internal/describe/configure.go": "an answer of a plugin, another process",
}

// The text of an error is for people. Code that searches it depends on a wording that may change.
func TestNoErrorIsFoundByItsText(t *testing.T) {
	searches := []string{"Contains", "HasPrefix", "HasSuffix", "Cut", "CutPrefix", "CutSuffix", "TrimPrefix", "TrimSuffix", "Index", "IndexFunc", "IndexByte", "FindStringSubmatch", "FindString", "MatchString"}
	found := map[string]bool{}
	for _, f := range files(t) {
		if f.test || strings.HasPrefix(f.dir, "test/") {
			continue
		}
		for _, d := range f.tree.Decls {
			texts := map[string]bool{} // variables with the text of an error
			ast.Inspect(d, func(n ast.Node) bool {
				if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 && len(a.Rhs) == 1 && isErrorText(a.Rhs[0], nil) {
					texts[fmt.Sprint(a.Lhs[0])] = true
				}
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				by, ok := call.Fun.(*ast.SelectorExpr)
				if ok && fmt.Sprint(by.X) != "slices" && slices.Contains(searches, by.Sel.Name) && slices.ContainsFunc(call.Args, func(arg ast.Expr) bool { return isErrorText(arg, texts) }) {
					found[f.path] = true
					if errorTexts[f.path] == "" {
						t.Errorf("%s: %s searches the text of an error: want errors.Is or errors.AsType, or a reason in the table", f.path, by.Sel.Name)
					}
				}
				return true
			})
		}
	}
	for _, path := range slices.Sorted(maps.Keys(errorTexts)) {
		if !found[path] {
			t.Errorf("%s searches no text of an error any longer: take it out of the table", path)
		}
	}
}

// isErrorText reports whether e is a call of Error, a conversion of it, or a variable in texts.
func isErrorText(e ast.Expr, texts map[string]bool) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return texts[e.Name]
	case *ast.CallExpr:
		by, ok := e.Fun.(*ast.SelectorExpr)
		return ok && by.Sel.Name == "Error" && len(e.Args) == 0 || len(e.Args) == 1 && isErrorText(e.Args[0], texts)
	}
	return false
}
