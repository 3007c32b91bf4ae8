package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// kubernetes is the kubelet's module.
const kubernetes = "k8s.io/kubernetes"

// checkMinor refuses a version of another minor release than the one that this module
// requires: the plugins inside use its API, and its modules are others.
func checkMinor(version, required string) error {
	if want := semver.MajorMinor(required); semver.MajorMinor(version) != want {
		return fmt.Errorf("-k8s: %q: want a version of %s, such as %s: evictd is built with its API", version, want, required)
	}
	return nil
}

// download has the sources of a version in the module cache, and returns where.
func download(ctx context.Context, version string) (string, error) {
	text, err := goCommand(ctx, "mod", "download", "-json", kubernetes+"@"+version)
	var module struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(text, &module); jsonErr != nil {
		return "", errors.Join(err, jsonErr)
	}
	if module.Error != "" {
		return "", fmt.Errorf("%s@%s: %s", kubernetes, version, module.Error)
	}
	return module.Dir, err
}

// writeModule puts a go.mod into out that is this module's with the sources of version in
// place of those that it requires, and
// replaced by the link that is in out. It has another name, as out is no module.
func writeModule(ctx context.Context, version, is, out string) error {
	text, err := goCommand(ctx, "env", "GOMOD")
	if err != nil {
		return err
	}
	from := filepath.Dir(strings.TrimSpace(string(text)))
	mod, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(from, "go.sum"))
	if err != nil {
		return err
	}
	if is != version {
		// The kubelet's own modules are v0 where it is v1.
		staging := func(v string) []byte { return []byte(" v0" + strings.TrimPrefix(v, "v1")) }
		mod = bytes.ReplaceAll(mod, []byte(kubernetes+" "+is), []byte(kubernetes+" "+version))
		mod = bytes.ReplaceAll(mod, staging(is), staging(version))
	}
	link := filepath.Join(out, "kubernetes")
	mod = append(mod, fmt.Sprintf("\nreplace %s => %s\n", kubernetes, link)...)
	// This module is not where the new go.mod is: what is replaced by a directory is
	// relative to it all the same.
	file := filepath.Join(out, "kubelet.mod")
	if err := errors.Join(writeFile(file, mod), writeFile(filepath.Join(out, "kubelet.sum"), sums)); err != nil {
		return err
	}
	if is == version {
		return nil
	}
	_, err = goCommand(ctx, "mod", "tidy", "-modfile="+file)
	return err
}

// required is the version that this module requires.
func required(ctx context.Context) (string, error) {
	text, err := goCommand(ctx, "list", "-m", "-f", "{{.Version}}", kubernetes)
	return strings.TrimSpace(string(text)), err
}

func goCommand(ctx context.Context, args ...string) ([]byte, error) {
	var problem bytes.Buffer
	c := exec.CommandContext(ctx, "go", args...)
	c.Stderr = &problem
	out, err := c.Output()
	if err != nil {
		return out, fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, problem.Bytes())
	}
	return out, nil
}
