package structure_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// wing finds the part of the code to which a directory belongs.
var wing = regexp.MustCompile(`^(host/internal/[^/]+|host/[^/]+|[^/]+)`)

func TestBudgets(t *testing.T) {
	wings, lines, imports := map[string]int{}, map[string]int{}, map[string][]string{}
	for _, f := range files(t) {
		in := wing.FindString(f.dir)
		if f.test || in == "test" || in == "host/paritytest" {
			continue
		}
		wings[in] += f.lines
		lines[f.dir] += f.lines
		for _, i := range f.tree.Imports {
			at, _ := strconv.Unquote(i.Path.Value)
			if dir, ours := strings.CutPrefix(at, module); ours {
				imports[f.dir] = append(imports[f.dir], dir)
			}
		}
	}
	if lines[loop] == 0 {
		t.Fatalf("%s has no code: say where the loop is", loop)
	}
	closure := map[string]int{}
	var add func(dir string)
	add = func(dir string) {
		if _, known := closure[dir]; !known {
			closure[dir] = lines[dir]
			for _, to := range imports[dir] {
				add(to)
			}
		}
	}
	add(loop)
	total := 0
	for _, n := range closure {
		total += n
	}
	t.Logf("%s imports %d packages of ours with %d lines, itself included", loop, len(closure), total)
	const raise = "delete elsewhere, or raise the figure by hand and say why in the commit's body"
	check(t, "testdata/figures.txt",
		budget("wing", wings),
		budget("closure", map[string]int{"lines": total}),
		rule{"closure", 0, raise, map[string]int{"packages": len(closure)}, 1, 0})
}

// budget limits lines in steps. Just rewritten, each limit has room for 100 more.
func budget(name string, lines map[string]int) rule {
	return rule{name, 0, "delete elsewhere, or raise the figure by hand to the next multiple of 250 and say why in the commit's body", lines, 250, 100}
}

// said is a test that only collects what it fails for.
type said struct {
	testing.TB
	text string
}

func (s *said) Errorf(format string, args ...any) { s.text += fmt.Sprintf(format, args...) }

func TestABudgetHasRoomForSmallChanges(t *testing.T) {
	for name, c := range map[string]struct {
		found, figure int
		says          string // without -rewrite
		rewritten     int
	}{
		"more than its figure":             {1251, 1250, "wing host is 1251, more than the 1250", 1250},
		"up to its figure":                 {1250, 1250, "", 1250},
		"on a step":                        {1000, 1250, "", 1250},
		"the least room after a rewrite":   {900, 1250, "", 1000},
		"the most room after a rewrite":    {901, 1250, "", 1250},
		"250 lines below the most room":    {651, 1250, "", 1000},
		"251 lines below the most room":    {650, 1250, "tighten it with -rewrite", 750},
		"a figure between steps":           {1000, 1101, "not a multiple of 250", 1101},
		"more than a figure between steps": {1301, 1300, "more than the 1300", 1300},
		"a wing that is no more":           {0, 250, "needs no exception", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := budget("wing", map[string]int{"host": c.found})
			if says, kept := checked(t, r, c.figure, false); kept != c.figure || !strings.Contains(says, c.says) || c.says == "" && says != "" {
				t.Errorf("%+v says %q and leaves %d", c, says, kept)
			}
			if _, kept := checked(t, r, c.figure, true); kept != c.rewritten {
				t.Errorf("-rewrite leaves %d, want %d", kept, c.rewritten)
			}
		})
	}
}

func TestARewriteLeavesRoomInEachWing(t *testing.T) {
	const high = 1 << 20 / 250 * 250
	for n := 1; n <= 500; n++ {
		_, figure := checked(t, budget("wing", map[string]int{"host": n}), high, true)
		if room := figure - n; room < 100 || room >= 350 || figure%250 != 0 {
			t.Fatalf("a wing of %d lines gets %d", n, figure)
		}
		for _, change := range []int{-100, 100} {
			if says, _ := checked(t, budget("wing", map[string]int{"host": max(1, n+change)}), figure, false); says != "" {
				t.Fatalf("a wing of %d lines, rewritten, and %d lines more: %s", n, change, says)
			}
		}
	}
}

// checked returns what check says of a wing with a figure, and the figure it leaves, 0 if it leaves none.
func checked(t *testing.T, r rule, figure int, rewriting bool) (says string, kept int) {
	t.Helper()
	defer func(was bool) { *rewrite = was }(*rewrite)
	*rewrite = rewriting
	figures := filepath.Join(t.TempDir(), "figures.txt")
	if err := os.WriteFile(figures, fmt.Appendf(nil, "wing host %d\n", figure), 0o600); err != nil {
		t.Fatal(err)
	}
	got := said{TB: t}
	check(&got, figures, r)
	text, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "wing host %d\n", &kept); err != nil && len(text) > 0 {
		t.Fatalf("%q: %v", text, err)
	}
	return got.text, kept
}
