package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// goVersion has the minimum version of Go: no module builds with the SDK without it.
const goVersion = "1.26.0"

// A checkout describes a local copy of evictd for a module that builds with the SDK in it.
type checkout struct {
	// Dir is its absolute path. The directories sdk and shared in it are the SDK's modules.
	Dir string
	// Go is the version of Go that the SDK requires.
	Go string
	// Version has the version by which the SDK's modules require each other.
	Version string
	// Requires are the modules of others that both require, as lines of a go.mod; Sum is the content of their go.sum.
	Requires []string
	Sum      []byte
}

func readCheckout(dir string) (checkout, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return checkout{}, err
	}
	c := checkout{Dir: abs}
	versions, sums := map[string]string{}, map[string]bool{}
	for _, path := range []string{SDK, shared} {
		f, sum, err := readModule(filepath.Join(abs, filepath.Base(path)), path)
		if err != nil {
			return checkout{}, fmt.Errorf("%w, want the directory of an evictd checkout", err)
		}
		if f.Go != nil && semver.Compare("v"+f.Go.Version, "v"+c.Go) > 0 {
			c.Go = f.Go.Version
		}
		for _, r := range f.Require {
			if r.Mod.Path == shared {
				c.Version = r.Mod.Version
			} else if semver.Compare(r.Mod.Version, versions[r.Mod.Path]) > 0 {
				versions[r.Mod.Path] = r.Mod.Version
			}
		}
		for line := range bytes.Lines(sum) {
			sums[string(line)] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(versions)) {
		c.Requires = append(c.Requires, path+" "+versions[path])
	}
	c.Sum = []byte(strings.Join(slices.Sorted(maps.Keys(sums)), ""))
	return c, nil
}

// readModule reads go.mod and go.sum of the module in dir, whose path must be as given.
func readModule(dir, path string) (*modfile.File, []byte, error) {
	name := filepath.Join(dir, "go.mod")
	mod, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s has no go.mod", dir)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := modfile.ParseLax(name, mod, nil)
	if err != nil {
		return nil, nil, err
	}
	if f.Module == nil || f.Module.Mod.Path != path {
		return nil, nil, fmt.Errorf("%s is the module %.100q and not %s", dir, modfile.ModulePath(mod), path)
	}
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	return f, sum, err
}
