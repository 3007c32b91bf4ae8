package structure_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// output runs a program in a directory.
func output(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", program, args, err, errors.String())
	}
	return string(out)
}

// Each kind of file is an input of the parts that read it, and a change of an input changes their keys.
func TestAChangeOfAnInputChangesTheKey(t *testing.T) {
	tree := t.TempDir()
	for file := range strings.Lines(output(t, root, "git", "ls-files", "--cached", "--others", "--exclude-standard")) {
		file = strings.TrimSpace(file)
		data, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue // removed and not committed
		}
		to := filepath.Join(tree, file)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	output(t, tree, "git", "init", "--quiet")
	change := func(file string) {
		path := filepath.Join(tree, file)
		was, _ := os.ReadFile(path) // none if it is new
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(was, '\n'), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	keys := func() map[string]string {
		all := map[string]string{}
		for line := range strings.Lines(output(t, tree, ".ci/run", "keys")) {
			name, key, _ := strings.Cut(strings.TrimSpace(line), " ")
			all[name] = key
		}
		return all
	}
	before := keys()
	every := slices.Sorted(maps.Keys(before))
	but := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(every), func(name string) bool { return slices.Contains(names, name) })
	}
	kinds := map[string][]string{
		"Makefile":                                    every, // the version of a tool
		".ci/run":                                     every,
		"deploy/rbac/policy.yaml":                     every,
		"test/harness/fence/pods.go":                  every,
		"host/internal/core/policy/threshold.go":      but("admission"),
		"host/internal/face/scaffold/templates/added": but("admission"),
		"host/added.go":                               but("admission"),
		"go.sum":                                      but("admission"),
		"deploy/chart/values.yaml":                    but("admission"),
		"host/internal/core/policy/testdata/added":    but("admission"),
		"test/harness/stack/stack.go":                 but("admission"),
		"host/internal/core/policy/added_test.go":     {"machine"},
		"shared/conformance/added_test.go":            {"conformance", "machine"},
		"sdk/sdktest/added_test.go":                   {"authors", "machine"},
		"test/suites/kubernetes/cluster/cluster.go":   {"cluster"},
		"test/suites/e2e/testdata/added":              {"disks", "machine"},
		"test/suites/e2e/go.mod":                      {"disks", "machine"},
		"host/kubelet/go.mod":                         {"kubelet"},
		"host/paritytest/added_test.go":               {"machine", "parity"},
		"docs/plugin-authors.md":                      {"authors", "guest", "packages"},
		"README.md":                                   {"packages"},
		"test/suites/structure/testdata/figures.txt":  {},
	}
	for file := range kinds {
		if strings.Contains(file, "/added") {
			change(file)
		}
	}
	read := map[string][]string{}
	for _, name := range every {
		for file := range strings.Lines(output(t, tree, ".ci/run", "inputs", name)) {
			read[strings.TrimSpace(file)] = append(read[strings.TrimSpace(file)], name)
		}
	}
	for file, want := range kinds {
		if !slices.Equal(read[file], want) {
			t.Errorf("%s is an input of %q, want %q", file, read[file], want)
		}
	}
	before = keys()
	for _, file := range []string{"Makefile", "host/internal/core/policy/threshold.go", "docs/plugin-authors.md"} {
		change(file)
		var changed []string
		after := keys()
		for _, name := range every {
			if after[name] != before[name] {
				changed = append(changed, name)
			}
		}
		if before = after; !slices.Equal(changed, kinds[file]) {
			t.Errorf("a change of %s changes the keys of %q, want %q", file, changed, kinds[file])
		}
	}
}

// keyed are the packages that the gate runs by key, by the directory of their module.
var keyed = map[string]map[string]string{
	"kubelet":     {"host/kubelet": "./..."},
	"parity":      {"host/paritytest": "./..."},
	"packages":    {"deploy/packages": "./..."},
	"disks":       {"test/suites/e2e": "./..."},
	"guest":       {".": "./test/suites/guest"},
	"cluster":     {"test/suites/kubernetes": "./..."},
	"admission":   {"test/suites/admission": "."},
	"browser":     {"test/suites/browser": "."},
	"python":      {".": "./test/suites/python"},
	"authors":     {".": "./test/suites/authors"},
	"conformance": {"shared": "./conformance"},
	"machine":     {".": "./test/suites/crossings"},
}

// The sources of the tests that the gate runs by key are among their inputs.
func TestInputsHaveEachImportedFile(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs modules of the network: run make test")
	}
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, modules := range keyed {
		inputs := strings.Fields(output(t, root, ".ci/run", "inputs", name))
		for dir, packages := range modules {
			read := output(t, filepath.Join(root, dir), "go", "list", "-deps", "-test",
				"-f", `{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}`, packages)
			ours := 0
			for file := range strings.Lines(read) {
				file, found := strings.CutPrefix(strings.TrimSpace(file), tree+"/")
				if !found || strings.Contains(file, "//") { // of the cache: the main function of tests
					continue
				}
				ours++
				if !slices.Contains(inputs, file) {
					t.Errorf("%s is made of %s, which is not among its inputs", name, file)
				}
			}
			if ours == 0 {
				t.Errorf("%s: go list names no file of this tree", name)
			}
		}
	}
}
