package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// goVersion is what the SDK asks for at least. A module that says less does not
// build with it.
const goVersion = "1.26.0"

// A checkout is what a module needs to know of the SDK's directory to build with it.
type checkout struct {
	// Dir is absolute.
	Dir string
	// Go is the version of Go that the SDK asks for.
	Go string
	// Requires are the modules that it is built with, as lines of a go.mod, and Sum
	// is the content of its go.sum.
	Requires []string
	Sum      []byte
}

// readCheckout reads a checkout of evictd.
func readCheckout(dir string) (checkout, error) {
	const want = "want the directory of an evictd checkout"
	abs, err := filepath.Abs(dir)
	if err != nil {
		return checkout{}, err
	}
	mod, err := os.ReadFile(filepath.Join(abs, "go.mod"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return checkout{}, fmt.Errorf("%s has no go.mod, %s", abs, want)
	case err != nil:
		return checkout{}, fmt.Errorf("%w, %s", err, want)
	}
	c := checkout{Dir: abs}
	module := ""
	module, c.Go, c.Requires = parseMod(string(mod))
	if module != SDK {
		return checkout{}, fmt.Errorf("%s is the module %.100q and not %s, %s", abs, module, SDK, want)
	}
	if c.Sum, err = os.ReadFile(filepath.Join(abs, "go.sum")); err != nil {
		return checkout{}, fmt.Errorf("%w, %s", err, want)
	}
	return c, nil
}

// parseMod takes what is needed from a go.mod, as go mod tidy writes it.
func parseMod(text string) (module, goVersion string, requires []string) {
	inBlock := false
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case inBlock && words[0] == ")":
			inBlock = false
		case inBlock && len(words) == 2:
			requires = append(requires, words[0]+" "+words[1])
		case words[0] == "require" && len(words) == 2 && words[1] == "(":
			inBlock = true
		case words[0] == "require" && len(words) == 3:
			requires = append(requires, words[1]+" "+words[2])
		case words[0] == "module" && len(words) == 2:
			module = strings.Trim(words[1], `"`)
		case words[0] == "go" && len(words) == 2:
			goVersion = words[1]
		}
	}
	return module, goVersion, requires
}
