package packages

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sassoftware/go-rpmutils"
)

// dist is where the packages are, of which there is one of each kind for this machine.
func dist(t *testing.T, pattern string) string {
	t.Helper()
	dir := os.Getenv("EVICTD_PACKAGES")
	if dir == "" {
		t.Skip("needs packages: run make packages")
	}
	return newest(t, filepath.Join(dir, pattern))
}

func newest(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return slices.MaxFunc(found, func(a, b string) int {
		at, err := os.Stat(a)
		bt, errB := os.Stat(b)
		if err := errors.Join(err, errB); err != nil {
			t.Fatal(err)
		}
		return cmp.Compare(at.ModTime().UnixNano(), bt.ModTime().UnixNano())
	})
}

// An entry describes a file that a package installs.
type entry struct {
	mode        os.FileMode
	owner       string
	digest      string
	link        string // what a symbolic link leads to
	conffile    bool
	directories bool
}

func debContent(t *testing.T, deb string) map[string]entry {
	t.Helper()
	archive, err := exec.CommandContext(t.Context(), "dpkg-deb", "--fsys-tarfile", deb).Output()
	if err != nil {
		t.Fatal(err)
	}
	conffiles, err := exec.CommandContext(t.Context(), "dpkg-deb", "--info", deb, "conffiles").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]entry{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		name := "/" + strings.Trim(strings.TrimPrefix(h.Name, "."), "/")
		all[name] = entry{
			mode: h.FileInfo().Mode().Perm(), owner: h.Uname + ":" + h.Gname, digest: digest(t, r), link: h.Linkname, directories: h.FileInfo().IsDir(),
			conffile: slices.Contains(strings.Fields(string(conffiles)), name),
		}
	}
}

func rpmContent(t *testing.T, rpm string) map[string]entry {
	t.Helper()
	f, err := os.Open(rpm)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	pkg, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := pkg.PayloadReaderExtended()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]entry{}
	for {
		h, err := payload.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		e := entry{
			mode: os.FileMode(h.Mode()).Perm(), owner: h.UserName() + ":" + h.GroupName(), link: h.Linkname(), directories: h.Mode()&0o170000 == 0o040000,
			conffile: h.Flags()&rpmutils.RPMFILE_CONFIG != 0,
		}
		if e.link != "" {
			e.digest = digest(t, strings.NewReader(""))
		} else if !e.directories {
			e.digest = digest(t, payload)
		}
		all[strings.TrimSuffix(h.Name(), "/")] = e
	}
}

func TestBothPackagesHoldTheSame(t *testing.T) {
	deb, rpm := debContent(t, dist(t, "evictd_*_amd64.deb")), rpmContent(t, dist(t, "evictd-*.x86_64.rpm"))
	files := 0
	for name, d := range deb {
		r, ok := rpm[name]
		switch {
		case !ok && d.directories && !strings.HasPrefix(name, "/etc/evictd") && !strings.HasPrefix(name, "/usr/libexec/evictd"):
			continue // of the system
		case !ok:
			t.Errorf("the rpm has no %s", name)
		case d.directories:
			r.digest, d.digest = "", ""
		default:
			files++
		}
		if ok && r != d {
			t.Errorf("%s is %+v in the deb and %+v in the rpm", name, d, r)
		}
	}
	for name := range rpm {
		if _, ok := deb[name]; !ok {
			t.Errorf("only the rpm has %s", name)
		}
	}
	if files < 15 {
		t.Errorf("%d files were compared", files)
	}
	for name, want := range map[string]entry{
		"/usr/libexec/evictd/plugins": {mode: 0o755, owner: "root:root", directories: true},
		"/etc/evictd/evictd.yaml":     {mode: 0o644, owner: "root:root", conffile: true},
		"/usr/bin/evictd":             {mode: 0o755, owner: "root:root"},
		"/usr/bin/evictctl":           {mode: 0o755, owner: "root:root"},
	} {
		got := deb[name]
		got.digest = ""
		if got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
	for _, name := range []string{"memory", "disk", "pid"} {
		if link := deb["/usr/libexec/evictd/plugins/"+name].link; link != "../../../bin/evictd" {
			t.Errorf("plugin %s is a link to %q, want ../../../bin/evictd", name, link)
		}
	}
}

// The package evicted pods from its first start on, where the chart began with a dry run.
func TestTheConfigurationOfThePackageBeginsWithADryRun(t *testing.T) {
	text, err := os.ReadFile("../evictd.yaml")
	if err != nil || !strings.Contains(string(text), "\ndryRun: true\n") {
		t.Errorf("deploy/evictd.yaml: %v, %s, want a dry run", err, text)
	}
	said, _ := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("EVICTD_BIN"), "evictctl"), "check", "--config", "../evictd.yaml", "--start-plugins=false").CombinedOutput()
	if !strings.HasPrefix(string(said), "SIGNAL ") || strings.Contains(string(said), "evictd.yaml:") {
		t.Errorf("evictctl check: %s, want its thresholds", said)
	}
}

func digest(t *testing.T, r io.Reader) string {
	t.Helper()
	sum, err := sha(r)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum)
}
