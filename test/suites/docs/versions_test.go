package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the tests run with is what README.md says.
func TestVersionsThatAreTested(t *testing.T) {
	readme := read(t, filepath.Join(root, "README.md"))
	for _, pin := range []string{containerdPin, kubernetesPin} {
		if v := versionsIn(t, "Makefile", pin); len(v) != 1 || !strings.Contains(readme, v[0]) {
			t.Errorf("README.md does not say that %q of the Makefile is tested", v)
		}
	}
}

const (
	containerdPin = `(?m):= \$\(TOOLS\)/containerd-(v\S+)$`
	kubernetesPin = `(?m)^K8S +\?= (v\S+)$`
	kubernetes    = `\b(v1\.3\d\.\d+)\b`
)

// A version that was raised in one file stayed in others. Each that a document or a program names is that of the file that
// decides, named first.
func TestEachVersionComesFromOnePlace(t *testing.T) {
	for name, c := range map[string]struct {
		from, pin string
		in        []string
		form      string
	}{
		"Kubernetes":            {".ci/run", kubernetes, []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "host/kubelet/generate/main.go"}, kubernetes},
		"Kubernetes by default": {"Makefile", kubernetesPin, []string{"Makefile", "host/kubelet/generate/main.go"}, `(?:K8S=|"k8s", "|K8S \()(v[\d.]+\d)`},
		"the parity tests'":     {"host/paritytest/go.mod", `k8s.io/kubernetes (v\S+)`, []string{"Makefile"}, `PARITY_K8S = (v\S+)`},
		"containerd":            {"Makefile", containerdPin, []string{"README.md", "docs/*.md", "plugins/*/*.md"}, `containerd (v\d+\.\d+\.\d+)`},
		"Helm":                  {"Makefile", `/helm-(v[^/]+)/`, []string{"docs/install.md"}, `tested:\s+(v[\d.]+\d)`},
		"evictd":                {"deploy/chart/Chart.yaml", `(?m)^appVersion: (.*)$`, []string{"deploy/chart/Chart.yaml"}, `(?m)^version: (.*)$`},
		"evictd, of modules":    {"deploy/chart/Chart.yaml", `(?m)^appVersion: (.*)$`, []string{"go.mod", "sdk/go.mod", "host/*/go.mod", "test/suites/*/go.mod"}, `evictd/(?:sdk|shared) v(\S+)`},
		"evictd, in commands":   {"deploy/chart/Chart.yaml", `(?m)^appVersion: (.*)$`, []string{"README.md", "docs/*.md", "test/suites/kubernetes/keep/main.go"}, `(?:VERSION=|evictd_|/evictd:|version = ")(\d+\.\d+\.\d+)`},
	} {
		want, found := versionsIn(t, c.from, c.pin), 0
		for _, pattern := range c.in {
			files, err := filepath.Glob(filepath.Join(root, pattern))
			if err != nil || len(files) == 0 {
				t.Fatalf("no %s: %v", pattern, err)
			}
			for _, file := range files {
				for _, v := range versionsIn(t, strings.TrimPrefix(file, root), c.form) {
					found++
					if !slices.Contains(want, v) {
						t.Errorf("%s: %s in %s, want %q as in %s", name, v, file, want, c.from)
					}
				}
			}
		}
		if len(want) == 0 || found == 0 {
			t.Errorf("%s: %q in %s, %d in %q, want some of each", name, want, c.from, found, c.in)
		}
	}
}

// versionsIn returns what the group of a pattern matches in a file.
func versionsIn(t *testing.T, file, pattern string) (versions []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, filepath.Join(root, file)), -1) {
		versions = append(versions, m[1])
	}
	return versions
}
