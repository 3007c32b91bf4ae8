package scaffold

import (
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/testos"
)

const repository = "../../../.."

var kinds = []Kind{Rank, Disk, Signal}

func TestEveryModuleIsFormattedGo(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, kind := range kinds {
		m, err := Write(Options{Name: string(kind) + "-plugin", Kind: kind, Version: "v1.2.3"})
		if err != nil {
			t.Fatal(err)
		}
		if m.Dir != string(kind)+"-plugin" || !m.Tidy {
			t.Errorf("%+v, want a module in the working directory that go mod tidy is for", m)
		}
		for _, want := range []string{".gitignore", "README.md", "go.mod", "main.go", "main_test.go"} {
			if !slices.Contains(m.Files, want) {
				t.Errorf("%s: %s is missing in %q", kind, want, m.Files)
			}
		}
		for _, name := range m.Files {
			content, err := os.ReadFile(filepath.Join(m.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(content), "<no value>") || strings.Contains(string(content), "[[") {
				t.Errorf("%s: %s is not expanded:\n%s", kind, name, content)
			}
			if !strings.HasSuffix(name, ".go") {
				continue
			}
			want, err := format.Source(content)
			if err != nil {
				t.Errorf("%s: %s: %v", kind, name, err)
			} else if diff := cmp.Diff(string(want), string(content)); diff != "" {
				t.Errorf("%s: %s is not as gofmt has it (-want +got):\n%s", kind, name, diff)
			}
		}
	}
}

// The example's own name would be that of every plugin.
func TestAPluginInPythonHasItsName(t *testing.T) {
	m, err := Write(Options{Name: "spot-first", Kind: Python, Dir: filepath.Join(t.TempDir(), "x")})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, name := range m.Files {
		content, err := os.ReadFile(filepath.Join(m.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		named += strings.Count(string(content), "spot-first")
		if text := string(content); strings.Contains(text, "python-rank") || strings.Contains(text, "[[.") {
			t.Errorf("%s is not expanded:\n%s", name, text)
		}
	}
	if named < 10 {
		t.Errorf("named %d times", named)
	}
}

func TestModuleOfARelease(t *testing.T) {
	m, err := Write(Options{Name: "x", Kind: Rank, Module: "acme.example/evictd/x", Dir: filepath.Join(t.TempDir(), "y"), Version: "v1.2.3-rc.1"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(m.Dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "module acme.example/evictd/x\n\ngo " + goVersion + "\n\nrequire github.com/evictd/evictd/sdk v1.2.3-rc.1\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("go.mod (-want +got):\n%s", diff)
	}
	if slices.Contains(m.Files, "go.sum") {
		t.Errorf("%q, want no go.sum, which go mod tidy writes", m.Files)
	}
}

// With the checkout's own requires and sums a module builds without a network.
func TestModuleOfACheckout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "an evictd")
	for name, content := range map[string]string{
		"sdk/go.mod": "module github.com/evictd/evictd/sdk\n\ngo 1.27.1\n\nrequire one.example/a v1.0.0 // indirect\n\n" +
			"require (\n\tgithub.com/evictd/evictd/shared v0.1.0\n\ttwo.example/b/v2 v2.0.1\n)\n\nreplace no.example/c => ../c\n",
		"sdk/go.sum":    "one.example/a v1.0.0 h1:x=\ntwo.example/b/v2 v2.0.1 h1:y=\n",
		"shared/go.mod": "module github.com/evictd/evictd/shared\n\ngo 1.26.0\n\nrequire one.example/a v1.10.0\n",
		"shared/go.sum": "one.example/a v1.10.0 h1:z=\none.example/a v1.0.0 h1:x=\n",
	} {
		testos.Put(t, filepath.Join(dir, name), content, 0o600)
	}
	m, err := Write(Options{Name: "x", Kind: Rank, Dir: filepath.Join(t.TempDir(), "x"), SDKDir: dir, Version: "v1.2.3-4-g0123abc"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(m.Dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want := `module example.com/x

go 1.27.1

require (
	github.com/evictd/evictd/sdk v0.1.0
	github.com/evictd/evictd/shared v0.1.0
)

// The SDK is not fetched but taken from this checkout.
replace (
	github.com/evictd/evictd/sdk => "` + dir + `/sdk"
	github.com/evictd/evictd/shared => "` + dir + `/shared"
)

// What the SDK is built with. "go mod tidy" removes what this plugin does without.
require (
	one.example/a v1.10.0 // indirect
	two.example/b/v2 v2.0.1 // indirect
)
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("go.mod (-want +got):\n%s", diff)
	}
	if sum, err := os.ReadFile(filepath.Join(m.Dir, "go.sum")); err != nil || string(sum) != "one.example/a v1.0.0 h1:x=\none.example/a v1.10.0 h1:z=\ntwo.example/b/v2 v2.0.1 h1:y=\n" || m.Tidy {
		t.Errorf("go.sum %q, %v, %+v, want the lines of both modules once", sum, err, m)
	}
}

func TestGoVersionIsTheSDKs(t *testing.T) {
	c, err := readCheckout(repository)
	if err != nil {
		t.Fatal(err)
	}
	if c.Go != goVersion {
		t.Errorf("a module says go %s, the SDK go %s", goVersion, c.Go)
	}
	// The SDK's two modules are required beside these. One of them is the validator of sdk/schema.
	if n := len(c.Requires) + 2; n < 10 || n > 21 || len(c.Sum) == 0 {
		t.Errorf("a plugin's module requires %d others, at most 21 are wanted, and has %d bytes of go.sum", n, len(c.Sum))
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	empty, other, broken := t.TempDir(), t.TempDir(), t.TempDir()
	testos.Put(t, filepath.Join(broken, "sdk/go.mod"), "require (\n(\n)\n//", 0o600)
	testos.Put(t, filepath.Join(other, "sdk/go.mod"), "module other.example\n", 0o600)
	file := filepath.Join(empty, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	good := Options{Name: "x", Kind: Rank, Version: "v1.2.3", Dir: filepath.Join(empty, "x")}
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no name":                   {func(o *Options) { o.Name = "" }, `name ""`},
		"a path":                    {func(o *Options) { o.Name = "../x" }, `name "../x"`},
		"upper case":                {func(o *Options) { o.Name = "Oldest" }, "lower-case"},
		"hidden":                    {func(o *Options) { o.Name = ".x" }, "file name of a plugin"},
		"being copied":              {func(o *Options) { o.Name = "x.tmp" }, "file name of a plugin"},
		"a long name":               {func(o *Options) { o.Name = strings.Repeat("x", maxName+1) }, "at most 63"},
		"a built-in one":            {func(o *Options) { o.Name = "disk" }, "built-in"},
		"no kind":                   {func(o *Options) { o.Kind = "" }, "--rank, --disk, --signal and --python"},
		"a module with tabs":        {func(o *Options) { o.Module = "a\tb" }, `--module "a\tb"`},
		"the SDK's module":          {func(o *Options) { o.Module = evictd + "/x" }, "of your own"},
		"a module in Python":        {func(o *Options) { o.Kind, o.Module = Python, "example.com/x" }, "want neither with --python"},
		"no release":                {func(o *Options) { o.Version = "v1.2.3-4-g0123abc" }, "want --sdk"},
		"no checkout":               {func(o *Options) { o.SDKDir = filepath.Join(empty, "absent") }, "has no go.mod, want the directory of an evictd checkout"},
		"a file":                    {func(o *Options) { o.SDKDir = file }, "want the directory of an evictd checkout"},
		"a go.mod that is none":     {func(o *Options) { o.SDKDir = broken }, "want the directory of an evictd checkout"},
		"a hidden module":           {func(o *Options) { o.Module = "example.com/.x" }, "of your own"},
		"a long module":             {func(o *Options) { o.Module = "example.com/" + strings.Repeat("x", 200) }, "of your own"},
		"another module":            {func(o *Options) { o.SDKDir = other }, `is the module "other.example"`},
		"a directory that is there": {func(o *Options) { o.Dir = empty }, "exists already"},
		"a file that is there":      {func(o *Options) { o.Dir = file }, "exists already"},
		"a parent that is missing":  {func(o *Options) { o.Dir = filepath.Join(empty, "a/b") }, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			c.change(&o)
			m, err := Write(o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if left, err := os.ReadDir(empty); err != nil || len(left) != 1 {
				t.Errorf("%v, %v left, want what was there before (%+v)", left, err, m)
			}
		})
	}
	if err := (Options{Module: " "}).Validate(); err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("got %v, want all four errors", err)
	}
}

// A disk that is full, and the like, leaves nothing behind.
func TestHalfWrittenModulesAreRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	err := writeFiles(dir, map[string][]byte{"main.go": []byte("package main\n"), "main.go/below": nil})
	if err == nil {
		t.Fatal("want an error")
	}
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left (%v)", dir, err)
	}
}
