package authors

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// released is the version of the modules that the modules of evictd require of each other.
const released = "v0.1.0"

// A vendor has no checkout: what evictctl of a release writes builds with the modules of that release, as a proxy has them.
func TestModulesBuildWithoutACheckout(t *testing.T) {
	needsRoot(t)
	goEnv := func(name string) string {
		out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	proxy := t.TempDir()
	for path, dir := range map[string]string{"github.com/evictd/evictd": "", "github.com/evictd/evictd/shared": "shared", "github.com/evictd/evictd/sdk": "sdk"} {
		publish(t, filepath.Join(proxy, path, "@v"), module.Version{Path: path, Version: released}, dir)
	}
	evictctl := filepath.Join(t.TempDir(), "evictctl")
	environment := append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-modcacherw -trimpath -tags=grpcnotrace", "GOTOOLCHAIN=local", "GONOSUMDB=github.com/evictd", // tags of a release are in the checksum database
		"GOMODCACHE="+filepath.Join(t.TempDir(), "modules"), fmt.Sprintf("GOPROXY=file://%s,file://%s/cache/download,%s", proxy, goEnv("GOMODCACHE"), goEnv("GOPROXY")))
	run := func(dir string, environment []string, command ...string) string {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, environment
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
		return string(out)
	}
	run(repository(t), append(os.Environ(), "CGO_ENABLED=0"), "go", "build", "-ldflags=-X main.version="+released, "-o", evictctl, "./host/cmd/evictctl")
	for _, kind := range []string{"rank", "disk", "signal"} {
		name := kind + "-plugin"
		dir := filepath.Join(t.TempDir(), name)
		run(t.TempDir(), environment, evictctl, "plugins", "new", name, "--"+kind, "--dir", dir)
		run(dir, environment, "go", "mod", "tidy")
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil || strings.Contains(string(text), "replace") || !strings.Contains(string(text), "github.com/evictd/evictd/sdk "+released) {
			t.Errorf("go.mod: %v\n%s\nwant the SDK of %s, and no replace line", err, text, released)
		}
		run(dir, environment, "go", "build", "-o", name, ".")
		if out := run(dir, environment, evictctl, "plugins", "verify", name); !strings.Contains(out, "handshake") {
			t.Errorf("verify: %s", out)
		}
	}
}

// publish puts the module in a directory of the commit into that of a proxy.
func publish(t *testing.T, to string, m module.Version, dir string) {
	t.Helper()
	root := repository(t)
	base := filepath.Join(to, m.Version)
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(base + ".zip")
	if err != nil {
		t.Fatal(err)
	}
	if err := zip.CreateFromVCS(file, m, root, "HEAD", dir); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{".mod": string(mod), ".info": fmt.Sprintf(`{"Version": %q}`, m.Version)} {
		if err := os.WriteFile(base+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(to, "list"), []byte(m.Version+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
