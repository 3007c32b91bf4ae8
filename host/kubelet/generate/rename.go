package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"unicode"
)

// prefix is in front of what is renamed.
const prefix = "upstream"

// rename returns a source with the declarations of functions and methods
// ("managerImpl.Admit") renamed, and nothing else changed: every line stays where it is.
// It is an error if one of them is not there.
func rename(name string, source []byte, functions []string) ([]byte, error) {
	tree, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var at []*ast.Ident
	var missing []string
	for _, f := range functions {
		if id := declared(tree, f); id != nil {
			at = append(at, id)
		} else {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s has no %s any more: this version of Kubernetes is not known to evictd, which must learn what has become of it", name, strings.Join(missing, " and no "))
	}
	slices.SortFunc(at, func(a, b *ast.Ident) int { return int(b.Pos() - a.Pos()) })
	out := bytes.Clone(source)
	for _, id := range at {
		// The only file of the set begins at 1.
		start := int(id.Pos()) - 1
		out = slices.Concat(out[:start], []byte(renamed(id.Name)), out[start+len(id.Name):])
	}
	return out, nil
}

func renamed(name string) string {
	return prefix + string(unicode.ToUpper(rune(name[0]))) + name[1:]
}

// declared is the name in the declaration of a function or method, nil if there is none.
func declared(tree *ast.File, function string) *ast.Ident {
	of, name, method := strings.Cut(function, ".")
	if !method {
		of, name = "", function
	}
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == name && receiver(f) == of {
			return f.Name
		}
	}
	return nil
}

// receiver is the name of the type that f is a method of, "" if it is none.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
