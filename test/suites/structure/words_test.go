package structure_test

import (
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// words are identifiers that have to be learned, with what to say instead.
var words = map[string]string{
	"told": "recordOf", "sighting": "observation", "need": "request", "heard": "request",
	"sight": "result", "strangers": "unauthenticated", "shadowed": "fallback", "patience": "minDeadline", "ownSignal": "customSignal",
	"revenant": "restartedAfterEviction", "doubtful": "unconfirmed", "telling": "patching", "inVain": "failedSince", "deafFor": "apiSilentFor",
	"poke": "wake", "instead": "replaced", "seenTo": "handled", "slowly": "apiLatencyFactor",
	"census": "pod usage sampler", "slip": "typo", "news": "changed", "freed": "released", "nextToTell": "pending",
}

// phrases are looked for in comments and strings, with what to say instead.
var phrases = map[string]struct {
	say   string
	match *regexp.Regexp
}{
	"is-what":    {"why, what is promised and what surprises", regexp.MustCompile(`^// [A-Za-z]+ (is|are) (what|that|who|how)\b`)},
	"own-signal": {"custom signal", regexp.MustCompile(`(?i)\bown signals?\b`)},
	"waits":      {"plugin start timed out", regexp.MustCompile(`nobody waits for them any longer`)},
	"sounds":     {"no wake within the interval", regexp.MustCompile(`silence is what a quiet node sounds like`)},
	"place":      {"plugin restored", regexp.MustCompile(`plugin has its place again`)},
}

// nameWords are looked for in names of tests, with what to say instead.
var nameWords = map[string]string{
	"nobody": "no pod, no plugin, nothing", "told": "reported, logged, recorded", "anew": "again",
	"sight": "observation", "news": "changes", "heard": "requested", "poke": "wake", "census": "usage sample",
	"strangers": "unauthenticated", "doubtful": "unconfirmed", "revenant": "restarted", "deaf": "unresponsive",
}

const inName = "test-name "

var (
	nameWord = regexp.MustCompile(`[A-Z]?[a-z]+`)
	testFunc = regexp.MustCompile(`^(Test|Benchmark|Fuzz)[A-Z0-9_]`)
)

func TestWords(t *testing.T) {
	found := map[string]map[string]int{}
	for word := range nameWords {
		found[inName+word] = map[string]int{}
	}
	for word := range words {
		found[word] = map[string]int{}
	}
	for name := range phrases {
		found[name] = map[string]int{}
	}
	for _, f := range files(t) {
		if f.dir == "test/suites/structure" {
			continue // which has to name them
		}
		place := strings.Join(strings.SplitN(f.dir, "/", 3)[:min(2, strings.Count(f.dir, "/")+1)], "/")
		look := func(text string) {
			for name, p := range phrases {
				found[name][place] += len(p.match.FindAllString(text, -1))
			}
		}
		for _, group := range f.tree.Comments {
			look("// " + strings.Join(strings.Fields(group.Text()), " "))
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok {
				look(text.Value)
			}
			for _, word := range nameWord.FindAllString(testName(f, n), -1) {
				if in := found[inName+strings.ToLower(word)]; in != nil {
					in[place]++
				}
			}
			for _, id := range declared(n) {
				for word := range words {
					if strings.EqualFold(id.Name, word) {
						found[word][place]++
					}
				}
			}
			return true
		})
	}
	var rules []rule
	for _, name := range slices.Sorted(maps.Keys(found)) {
		rules = append(rules, rule{name, 0, "say: " + words[name] + phrases[name].say + nameWords[strings.TrimPrefix(name, inName)], found[name], 0, 0})
	}
	check(t, "testdata/words.txt", rules...)
}

// testName returns the name that a node gives to a test, a benchmark, a fuzz test or a
// subtest, "" if there is none.
func testName(f file, n ast.Node) string {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if f.test && testFunc.MatchString(n.Name.Name) {
			return n.Name.Name
		}
	case *ast.CallExpr:
		run, _ := n.Fun.(*ast.SelectorExpr)
		if run == nil || !f.test || run.Sel.Name != "Run" || len(n.Args) != 2 {
			return ""
		}
		if text, ok := n.Args[0].(*ast.BasicLit); ok {
			return text.Value
		}
	}
	return ""
}

// declared returns the identifiers that a node declares.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.File:
		return []*ast.Ident{n.Name}
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.RangeStmt:
		return defined(n.Tok, n.Key, n.Value)
	case *ast.AssignStmt:
		return defined(n.Tok, n.Lhs...)
	}
	return nil
}

func defined(by token.Token, names ...ast.Expr) (ids []*ast.Ident) {
	for _, name := range names {
		if id, ok := name.(*ast.Ident); ok && by == token.DEFINE {
			ids = append(ids, id)
		}
	}
	return ids
}
