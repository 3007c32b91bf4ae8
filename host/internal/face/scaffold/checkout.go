package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// goVersion is the minimum version of Go, without which no module builds with the SDK.
const goVersion = "1.26.0"

// A checkout describes a local copy of the SDK for a module that builds with it.
type checkout struct {
	// Dir is its absolute path.
	Dir string
	// Go is the version of Go that the SDK requires.
	Go string
	// Requires are its required modules, as lines of a go.mod; Sum is the content of its go.sum.
	Requires []string
	Sum      []byte
}

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
	f, err := modfile.ParseLax(filepath.Join(abs, "go.mod"), mod, nil)
	if err != nil {
		return checkout{}, fmt.Errorf("%w, %s", err, want)
	}
	if f.Module == nil || f.Module.Mod.Path != SDK {
		return checkout{}, fmt.Errorf("%s is the module %.100q and not %s, %s", abs, modfile.ModulePath(mod), SDK, want)
	}
	c := checkout{Dir: abs}
	if f.Go != nil {
		c.Go = f.Go.Version
	}
	for _, r := range f.Require {
		c.Requires = append(c.Requires, r.Mod.Path+" "+r.Mod.Version)
	}
	if c.Sum, err = os.ReadFile(filepath.Join(abs, "go.sum")); err != nil {
		return checkout{}, fmt.Errorf("%w, %s", err, want)
	}
	return c, nil
}
