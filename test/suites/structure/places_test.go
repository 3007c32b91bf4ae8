package structure_test

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// places are the names of fields with a path of the node, or in them.
var places = []string{"RootDir", "KubeletRootDir", "PodLogsDir", "StaticPodPath", "BesideKubelet", "BesideKubeletDir", "RuntimeEndpoint", "ImageEndpoint", "ContainerLogsDir"}

// The kernel follows the links in a path of the node from the root of this process: nodefs.FS is the one way to a place.
func TestPlacesOfTheNodeAreReachedThroughItsRoot(t *testing.T) {
	packages := []string{"os", "unix", "syscall", "net", "input"}
	for _, f := range files(t) {
		if f.test || strings.HasPrefix(f.dir, "test/") || f.dir == "shared/nodefs" || f.dir == "shared/conformance" { // which runs on its own machine
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			by, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			opens, joins := slices.Contains(packages, fmt.Sprint(by.X)), by.Sel.Name == "Join"
			for _, arg := range call.Args {
				name := placeIn(arg)
				if opens && slices.Contains(places, name) || joins && name == "RootDir" {
					t.Errorf("%s: %s.%s has %s: want nodefs.FS.Path or Own", f.path, by.X, by.Sel.Name, name)
				}
			}
			return true
		})
	}
}

// placeIn returns the field of a path that is an argument, also within a call of Join or an addition.
func placeIn(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.BinaryExpr:
		if name := placeIn(e.X); slices.Contains(places, name) {
			return name
		}
		return placeIn(e.Y)
	case *ast.CallExpr:
		if by, ok := e.Fun.(*ast.SelectorExpr); ok && by.Sel.Name == "Join" {
			for _, arg := range e.Args {
				if name := placeIn(arg); slices.Contains(places, name) {
					return name
				}
			}
		}
	}
	return ""
}
