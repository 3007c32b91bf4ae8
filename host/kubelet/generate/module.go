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
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// kubernetes is the kubelet's module.
const kubernetes = "k8s.io/kubernetes"

// minors lists the releases that evictd is built and tested with.
var minors = []string{"v1.35", "v1.36", "v1.37", "v1.38"}

// checkMinor refuses a version of another minor release.
func checkMinor(version string) error {
	if !slices.Contains(minors, semver.MajorMinor(version)) {
		return fmt.Errorf("-k8s: %q: want a version of %s, such as %s.4: evictd knows the API of no other", version, strings.Join(minors, " or "), minors[0])
	}
	return nil
}

// download downloads a version's sources to the module cache, and returns their path.
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

// writeModule writes a go.mod to out: that of this module with the sources of version, replaced by
// the link in out. It has another name, as out is not a module.
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
	link := filepath.Join(out, "kubernetes")
	if is != version {
		kubelets, err := os.ReadFile(filepath.Join(link, "go.mod"))
		if err != nil {
			return err
		}
		mod = ofVersion(mod, kubelets, is, version)
	}
	mod = append(mod, fmt.Sprintf("\nreplace %s => %s\n", kubernetes, link)...)
	// The new go.mod is in another directory, but directory replacements are still relative to this
	// module.
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

// ofVersion returns the go.mod of this module with the kubelet's own modules changed to another
// version, as far as that version's go.mod requires them; v1 becomes v0 there. Indirect
// requirements follow from that version, too.
func ofVersion(mod, kubelets []byte, is, version string) []byte {
	mod = bytes.ReplaceAll(mod, []byte(kubernetes+" "+is), []byte(kubernetes+" "+version))
	mod = bytes.ReplaceAll(mod, []byte(" v0"+strings.TrimPrefix(is, "v1")), []byte(" v0"+strings.TrimPrefix(version, "v1")))
	var out bytes.Buffer
	for line := range bytes.Lines(mod) {
		module, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		replaced := slices.Concat(module, []byte(" => "), module)
		if bytes.Contains(line, []byte("// indirect")) || bytes.Contains(mod, replaced) && !bytes.Contains(kubelets, slices.Concat(module, []byte(" => ./staging/"))) {
			continue
		}
		out.Write(line)
	}
	// Its API differs in each version, and cadvisor's requires a newer one.
	const cgroups = "github.com/opencontainers/cgroups"
	if _, rest, ok := strings.Cut(string(kubelets), cgroups+" "); ok {
		fmt.Fprintf(&out, "\nreplace %[1]s => %[1]s %[2]s\n", cgroups, strings.Fields(rest)[0])
	}
	return out.Bytes()
}

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
