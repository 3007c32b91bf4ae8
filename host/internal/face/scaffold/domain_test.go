package scaffold

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDomain(t *testing.T) {
	for module, want := range map[string]string{
		"acme.example/evictd/x":   "acme.example",
		"ACME.example":            "acme.example",
		"github.com/acme/x":       placeholder, // many people's
		"x":                       placeholder, // none
		"x/y.z":                   placeholder,
		"sigs.k8s.io/x":           placeholder, // not for custom signals
		"a~b.example/x":           placeholder,
		"example.com/filehandles": placeholder,
	} {
		if got := domain(module); got != want {
			t.Errorf("domain of %q is %q, want %q", module, got, want)
		}
	}
}

// Modules of acme.example had signals of example.com.
func TestNamesHaveTheDomainOfTheModule(t *testing.T) {
	for _, kind := range kinds {
		m, err := Write(Options{Name: "x", Kind: kind, Module: "acme.example/x", Dir: filepath.Join(t.TempDir(), "x"), Version: "v1.2.3"})
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for _, name := range m.Files {
			content, err := os.ReadFile(filepath.Join(m.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all.Write(content)
		}
		if strings.Contains(all.String(), placeholder) || !strings.Contains(all.String(), `"acme.example/`) {
			t.Errorf("%s: names of %s in\n%s", kind, placeholder, all.String())
		}
	}
}
