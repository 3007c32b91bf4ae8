package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/kubelet/overlay"
)

const source = `package eviction

// NewManager makes one, with   odd spaces that stay.
func NewManager() *managerImpl { return nil }

func (m *managerImpl) synchronize() { m.Admit() }

func (m managerImpl) Admit() {}

func Admit() {}
`

func TestRename(t *testing.T) {
	got, err := rename("eviction_manager.go", []byte(source), []string{"NewManager", "managerImpl.Admit", "managerImpl.synchronize"})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer(
		"func NewManager", "func upstreamNewManager", ") synchronize", ") upstreamSynchronize", "managerImpl) Admit", "managerImpl) upstreamAdmit",
	).Replace(source)
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A kubelet that has changed would be built with its own manager, and nobody would know.
func TestSourcesThatHaveChangedAreAnError(t *testing.T) {
	dir := t.TempDir()
	for _, f := range overlay.Kubelet {
		if err := os.MkdirAll(filepath.Join(dir, f.Package), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	manager := filepath.Join(dir, "pkg/kubelet/eviction/eviction_manager.go")
	if err := os.WriteFile(manager, []byte("package eviction\n\nfunc NewEvictionManager() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := changed(dir, "v1.37.2", overlay.Kubelet)
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{
		"eviction_manager.go has no NewManager any more: this version of Kubernetes is not known to evictd",
		"preemption/preemption.go is not there any more",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

// Sources with evictd in them would have it twice.
func TestSourcesWithEvictdInThemAreAnError(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"eviction_manager.go": "package eviction\n\nfunc NewManager() {}\n", "evictd_eviction.go": "package eviction\n"}
	for name, text := range files {
		if err := writeFile(filepath.Join(dir, "pkg/kubelet/eviction", name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := changed(dir, "v1.37.2", overlay.Kubelet[:1]); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("%v, want the file to be there already", err)
	}
}

// What is written again is left alone, so that nothing is built anew.
func TestWritingTheSameTwice(t *testing.T) {
	out, sources := t.TempDir(), t.TempDir()
	c := changes{"pkg/kubelet/a.go": []byte("package a\n")}
	for range 2 {
		if err := c.write(out, sources); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "overlay.json"))
	if err != nil || !strings.Contains(string(text), filepath.Join(out, "kubernetes/pkg/kubelet/a.go")) {
		t.Errorf("%s, %v, want the file below the link", text, err)
	}
}

func TestPatch(t *testing.T) {
	sources := t.TempDir()
	if err := writeFile(filepath.Join(sources, "a.go"), []byte("package a\n")); err != nil {
		t.Fatal(err)
	}
	text, err := changes{"a.go": []byte("package b\n"), "new.go": []byte("package b\n")}.patch(t.Context(), sources)
	if err != nil || !strings.Contains(string(text), "-package a\n+package b\n") || !strings.Contains(string(text), "+++ b/new.go") {
		t.Errorf("%s, %v", text, err)
	}
}

// A release of which evictd does not know the modules failed for want of one of them.
func TestAnotherMinorReleaseIsAnError(t *testing.T) {
	for version, fits := range map[string]bool{
		"v1.36.3": true, "v1.36.0": true, "v1.36.10": true, "v1.36.4-rc.0": true,
		"v1.35.4": true, "v1.35.0": true, "v1.37.2": true, "v1.34.9": false, "v1.3.6": false, "v1.38.0-beta.0": true, "v1.39.0": false, "1.36.3": false, "": false, "v1": false,
	} {
		err := checkMinor(version)
		if (err == nil) != fits {
			t.Errorf("%q: %v, want it to fit: %v", version, err, fits)
		}
		if err != nil && !strings.Contains(err.Error(), "want a version of v1.35 or v1.36 or v1.37 or v1.38, such as v1.35.4") {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// A release without a module that the next one has failed for want of it.
func TestTheModulesAreThoseOfTheRelease(t *testing.T) {
	mod := "require (\n\tk8s.io/api v0.36.3\n\tk8s.io/streaming v0.0.0\n\tk8s.io/utils v0.0.0-1\n\texample.org/new v1.2.0 // indirect\n\tk8s.io/kubernetes v1.36.3\n)\n" +
		"replace (\n\tk8s.io/api => k8s.io/api v0.36.3\n\tk8s.io/streaming => k8s.io/streaming v0.36.3\n)\n"
	kubelets := "require github.com/opencontainers/cgroups v0.0.3\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n"
	want := "require (\n\tk8s.io/api v0.35.4\n\tk8s.io/utils v0.0.0-1\n\tk8s.io/kubernetes v1.35.4\n)\nreplace (\n\tk8s.io/api => k8s.io/api v0.35.4\n)\n" +
		"\nreplace github.com/opencontainers/cgroups => github.com/opencontainers/cgroups v0.0.3\n"
	if got := string(ofVersion([]byte(mod), []byte(kubelets), "v1.36.3", "v1.35.4")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
