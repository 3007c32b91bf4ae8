package record

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// A Difference is a field whose values differ between two records; the value of a missing field is
// "(none)".
type Difference struct{ Path, Left, Right string }

func (d Difference) String() string {
	return fmt.Sprintf("%s\n\t%s\n\t%s", d.Path, d.Left, d.Right)
}

// An Allowed is a difference that is right, with the reason. In Path, * matches any text without
// a dot, and [*] any element; an empty Left or Right matches any value.
type Allowed struct {
	Path, Left, Right, Why string
	// Sometimes: the difference need not occur.
	Sometimes bool
}

const none = "(none)"

// Compare returns the differences that are not allowed, and the allowed ones that do not occur
// but should.
func Compare(left, right Fields, allowed []Allowed) (unexpected []Difference, unused []Allowed) {
	used := make([]bool, len(allowed))
	for _, d := range differences(left, right) {
		covered := false
		for i, a := range allowed {
			if a.covers(d) {
				covered, used[i] = true, true
			}
		}
		if !covered {
			unexpected = append(unexpected, d)
		}
	}
	for i, a := range allowed {
		if !used[i] && !a.Sometimes {
			unused = append(unused, a)
		}
	}
	return unexpected, unused
}

func differences(left, right Fields) []Difference {
	paths := maps.Clone(left)
	maps.Copy(paths, right)
	var out []Difference
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		if l, r := left.value(p), right.value(p); l != r {
			out = append(out, Difference{Path: p, Left: l, Right: r})
		}
	}
	return out
}

func (f Fields) value(path string) string {
	if v, ok := f[path]; ok {
		return v
	}
	return none
}

// asPath converts a field path for path.Match, whose separator is the slash and which treats
// brackets as special.
var asPath = strings.NewReplacer("/", "%", ".", "/", "[", "/(", "]", ")")

func (a Allowed) covers(d Difference) bool {
	ok, err := path.Match(asPath.Replace(a.Path), asPath.Replace(d.Path))
	return err == nil && ok && (a.Left == "" || a.Left == d.Left) && (a.Right == "" || a.Right == d.Right)
}
