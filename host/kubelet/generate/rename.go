package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// prefix is prepended to renamed functions.
const prefix = "upstream"

// rename returns a source with the declarations of functions and methods ("managerImpl.Admit")
// renamed and otherwise unchanged: every line stays in place. It is an error if one of them is
// missing.
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
		// The positions of the set's only file begin at 1.
		start := int(id.Pos()) - 1
		out = slices.Concat(out[:start], []byte(prefix+strings.ToUpper(id.Name[:1])+id.Name[1:]), out[start+len(id.Name):])
	}
	return out, nil
}

// declared returns the name in the declaration of a function or method, nil if there is none.
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

// receiver returns the type of which f is a method, "" for a function.
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
