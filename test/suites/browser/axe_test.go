package browser

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Most checkers of accessibility run axe-core. No program has it; its digest is that of the npm registry.
const (
	axeVersion = "4.14.1"
	axeDigest  = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axe returns its script, which it keeps for the machine.
func axe(t *testing.T) string {
	t.Helper()
	ready(t)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "evictd", "axe-core-"+axeVersion)
	archive := filepath.Join(dir, "axe-core-"+axeVersion+".tgz")
	if _, err := os.Stat(archive); err != nil {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		pack := exec.CommandContext(t.Context(), "npm", "pack", "--silent", "axe-core@"+axeVersion)
		pack.Dir = t.TempDir()
		if out, err := pack.CombinedOutput(); err != nil {
			t.Fatalf("npm pack: %v: apt-get install npm\n%s", err, out)
		}
		data, err := os.ReadFile(filepath.Join(pack.Dir, filepath.Base(archive)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(archive, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if digest := sha512.Sum512(data); base64.StdEncoding.EncodeToString(digest[:]) != axeDigest {
		t.Fatalf("%s has the SHA-512 digest %x, want that of axeDigest: remove it", archive, digest)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(z); ; {
		header, err := files.Next()
		if err != nil {
			t.Fatalf("package/axe.min.js in %s: %v", archive, err)
		}
		if header.Name == "package/axe.min.js" {
			script, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			return string(script)
		}
	}
}

// A finding is a rule that a page breaks.
type finding struct {
	ID, Help string
	Tags     []string
	Nodes    []struct{ HTML, FailureSummary string }
}

func (f finding) String() string {
	text := f.ID + ": " + f.Help
	for _, n := range f.Nodes[:min(len(f.Nodes), 3)] {
		text += fmt.Sprintf("\n\t%.200s\n\t%s", n.HTML, n.FailureSummary)
	}
	return text
}

// check returns what axe finds: violations of WCAG A and AA, and advice that is no part of WCAG.
func check(p *tab, script string) (violations, advice []finding) {
	p.Helper()
	evaluate[bool](p, "if (!window.axe) {"+script+"};true")
	for _, f := range evaluate[[]finding](p, `axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"]}).then(r => r.violations.map(v => ({ID: v.id, Help: v.help, Tags: v.tags, Nodes: v.nodes.map(n => ({HTML: n.html, FailureSummary: n.failureSummary}))})))`) {
		if strings.Contains(strings.Join(f.Tags, " "), "best-practice") {
			advice = append(advice, f)
		} else {
			violations = append(violations, f)
		}
	}
	return violations, advice
}

func TestAPageBreaksNoRuleOfAccessibility(t *testing.T) {
	script := axe(t)
	for name, file := range pages(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := open(t, file, desk, "light")
			p.unfold()
			for _, width := range []int64{desk, 360} {
				for _, scheme := range []string{"light", "dark"} {
					p.screen(width, scheme)
					p.settle()
					violations, advice := check(p, script)
					for _, f := range violations {
						t.Errorf("%d %s: %s", width, scheme, f)
					}
					for _, f := range advice {
						t.Logf("%d %s: best practice: %s: %s, %d times", width, scheme, f.ID, f.Help, len(f.Nodes))
					}
				}
			}
		})
	}
}

// Without what makes a page accessible the same check finds what is missing.
func TestTheCheckOfAccessibilityFindsFaults(t *testing.T) {
	script := axe(t)
	p := open(t, written(t, example), 360, "dark")
	for rule, fault := range map[string]string{
		"html-has-lang":  `document.documentElement.removeAttribute("lang")`,
		"color-contrast": `document.querySelector("h1").style.color = "#333"`,
		"svg-img-alt":    `(e => { e.removeAttribute("aria-label"); e.querySelector("title").remove() })(document.querySelector("svg"))`,
	} {
		evaluate[any](p, fault)
		violations, _ := check(p, script)
		found := false
		for _, f := range violations {
			found = found || f.ID == rule
		}
		if !found {
			t.Errorf("%s is not found in %v", rule, violations)
		}
	}
}
