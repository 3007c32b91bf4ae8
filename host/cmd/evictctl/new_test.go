package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/face/command"
)

func release(t *testing.T, v string) {
	t.Helper()
	former := program.Version
	t.Cleanup(func() { program.Version = former })
	program.Version = v
}

func TestNewPlugin(t *testing.T) {
	release(t, "v1.2.3")
	t.Chdir(t.TempDir())
	got := evictctl(t, "plugins", "new", "spot-first", "--rank")
	want := result{Out: `made spot-first with .gitignore, README.md, chart/Chart.yaml, chart/templates/daemonset.yaml, chart/values.yaml, go.mod, main.go, main_test.go
next:
    cd spot-first
    go mod tidy
    go test ./...
    CGO_ENABLED=0 go build -trimpath -o bin/spot-first .
    evictctl plugins verify bin/spot-first
`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("new (-want +got):\n%s", diff)
	}
	again := evictctl(t, "plugins", "new", "spot-first", "--signal")
	if diff := cmp.Diff(result{Code: command.ExitFailure, Errors: "evictctl: spot-first exists already, want a directory that is to be made\n"}, again); diff != "" {
		t.Errorf("the second time (-want +got):\n%s", diff)
	}
	if mod, err := os.ReadFile("spot-first/go.mod"); err != nil || !strings.Contains(string(mod), "require github.com/evictd/evictd/sdk v1.2.3\n") {
		t.Errorf("go.mod %q, %v, want the release that wrote it", mod, err)
	}
}

func TestNewPluginInPython(t *testing.T) {
	release(t, "unknown") // no SDK is needed
	t.Chdir(t.TempDir())
	got := evictctl(t, "plugins", "new", "spot-first", "--python")
	want := result{Out: `made spot-first with .gitignore, Dockerfile, README.md, __main__.py, build.sh, chart/Chart.yaml, chart/templates/daemonset.yaml, chart/values.yaml, descriptor.binpb, evictd.py, rank.py, test_rank.py
next:
    cd spot-first
    python3 -m unittest
    sh build.sh bin/spot-first
    evictctl plugins verify bin/spot-first
`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("new (-want +got):\n%s", diff)
	}
}

func TestNewPluginOfACheckout(t *testing.T) {
	release(t, "v1.2.3-4-g0123abc-dirty")
	dir := filepath.Join(t.TempDir(), "elsewhere")
	got := evictctl(t, "plugins", "new", "acme-disk", "--disk", "--sdk", "../../..", "--module", "acme.example/disk", "--dir", dir)
	if got.Code != command.ExitFine || strings.Contains(got.Out, "go mod tidy") || !strings.HasPrefix(got.Out, "made "+dir+" with .gitignore, README.md, cache.go, chart/Chart.yaml, chart/templates/daemonset.yaml, chart/values.yaml, go.mod, go.sum, main.go, main_test.go, schema.json\n") {
		t.Errorf("new: %+v", got)
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module acme.example/disk\n") || !strings.Contains(string(mod), "\n\tgithub.com/evictd/evictd/sdk => /") {
		t.Errorf("go.mod %q, %v, want the module and a checkout by its absolute path", mod, err)
	}
}

func TestBadUseOfNew(t *testing.T) {
	release(t, "unknown")
	t.Chdir(t.TempDir())
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no name":      {[]string{"--rank"}, "0 arguments, want the name of the plugin and nothing else, see evictctl plugins new --help"},
		"two names":    {[]string{"a", "b"}, "2 arguments, want the name of the plugin and nothing else, see evictctl plugins new --help"},
		"two kinds":    {[]string{"a", "--rank", "--disk"}, "several kinds, want one of --rank, --disk, --signal and --python"},
		"unknown flag": {[]string{"a", "--watch"}, "unknown flag: --watch, see evictctl plugins new --help"},
		"all at once":  {[]string{"A"}, "name \"A\": want the file name of a plugin: at most 63 lower-case letters, digits and '-', such as \"spot-first\"\nkind: want one of --rank, --disk, --signal and --python\nthis evictd is no release (version \"unknown\"), so that Go cannot fetch its SDK: want --sdk with the directory of an evictd checkout"},
	} {
		t.Run(name, func(t *testing.T) {
			want := "evictctl: " + strings.ReplaceAll(c.want, "\n", "\nevictctl: ") + "\n"
			if diff := cmp.Diff(result{Code: command.ExitUsage, Errors: want}, evictctl(t, append([]string{"plugins", "new"}, c.args...)...)); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.args, diff)
			}
			if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
				t.Errorf("%v, %v left", left, err)
			}
		})
	}
}
