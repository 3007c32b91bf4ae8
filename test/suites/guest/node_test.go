package guest

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack/crossing"
	"github.com/evictd/evictd/test/harness/uml"
)

//go:embed containerd.toml
var containerdConfig string

// nodes are the kinds of a node: a suite of Debian and a cgroup driver. The first is part of the gate.
var nodes = []struct{ suite, driver string }{{"bookworm", "systemd"}, {"bookworm", "cgroupfs"}, {"trixie", "systemd"}}

// driverEnv tells the tests inside which one theirs has.
const driverEnv = "EVICTD_TEST_DRIVER"

// memoryMiB leaves some 130 MiB beside the system, evictd and its default threshold:
// this kernel is slow to hand out memory, and slower to take it back.
const memoryMiB = 416

func TestMain(m *testing.M) {
	crossing.RunIfChild()
	os.Exit(m.Run())
}

func TestNode(t *testing.T) {
	if os.Getenv("EVICTD_TEST_NODE") != "1" {
		t.Skip("boots a node: run make e2e-guest")
	}
	cache, err := os.UserCacheDir()
	must(t, err)
	script, err := filepath.Abs("rootfs.sh")
	must(t, err)
	tests := filepath.Join(t.TempDir(), "guest.test")
	uml.BuildTests(t, tests)
	for i, of := range nodes {
		t.Run(of.suite+" "+of.driver, func(t *testing.T) {
			if i > 0 && os.Getenv("EVICTD_NIGHTLY") == "" {
				t.Skip("part of make nightly")
			}
			root := strings.TrimSpace(run(t, script, filepath.Join(cache, "evictd", "guest"), of.suite))
			console := uml.Run(t, uml.Machine{MemoryMiB: memoryMiB, Root: root, Disks: []string{makeCheckout(t, tests, of.driver)}})
			if _, figures, ok := strings.Cut(console, figuresMark); ok && i == 0 {
				figures, _, _ = strings.Cut(figures, "\n")
				must(t, os.MkdirAll("../../../bin/test", 0o755))
				must(t, os.WriteFile("../../../bin/test/guest.json", []byte(figures), 0o644))
			}
		})
	}
}

// makeCheckout makes the image of what the node gets of this checkout.
func makeCheckout(t *testing.T, tests, driver string) string {
	t.Helper()
	return checkout(t, tests, driver, func(dir string) {
		_, err := hog.Compile(t.Context(), dir, exec.CommandContext)
		must(t, err)
		for _, version := range []string{"1.0", "1.1"} {
			makePackage(t, dir, version)
		}
	})
}

// checkout makes the image of what every node gets, and of what add adds to it.
func checkout(t *testing.T, tests, driver string, add func(dir string)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "checkout")
	must(t, os.Mkdir(dir, 0o755))
	for _, from := range []string{"bin/evictd", "bin/evictctl", "deploy"} {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(from)), 0o755))
		run(t, "cp", "-r", filepath.Join("../../..", from), filepath.Join(dir, from))
	}
	run(t, "cp", tests, filepath.Join(dir, "guest.test"))
	for name, content := range map[string]string{
		"containerd.toml": fmt.Sprintf(containerdConfig, driver == "systemd"),
		"environment":     "EVICTD_TEST_GUEST=1\n" + driverEnv + "=" + driver + "\nEVICTD_NIGHTLY=" + os.Getenv("EVICTD_NIGHTLY") + "\n",
		"install.sh":      installation(t),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	add(dir)
	return image(t, dir)
}

// image makes a disk of a directory.
func image(t *testing.T, dir string) string {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk.ext4")
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, size(t, dir)*5/4+16<<20))
	run(t, "mkfs.ext4", "-q", "-O", "^has_journal", "-d", dir, image)
	return image
}

// makePackage makes a package of what make stage has staged.
func makePackage(t *testing.T, dir, version string) {
	t.Helper()
	nfpm := exec.CommandContext(t.Context(), os.Getenv("EVICTD_NFPM"), "package", "-f", "../../deploy/packages/nfpm.yaml", "-p", "deb", "-t", filepath.Join(dir, "evictd_"+version+"_amd64.deb"))
	nfpm.Dir, nfpm.Env = "../../../dist/stage_amd64", append(os.Environ(), "ARCH=amd64", "PACKAGE_VERSION="+version)
	if out, err := nfpm.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", nfpm, err, out)
	}
}

// installation returns the commands that docs/operations.md has the reader type, after make
// build and but for the look at the plugins, which are up a moment later.
func installation(t *testing.T) string {
	t.Helper()
	document, err := os.ReadFile("../../../docs/operations.md")
	must(t, err)
	block := regexp.MustCompile("(?s)\n## Run it on a node\n.*?```sh\nmake build\n(.*?)evictctl plugins[^\n]*\n```").FindSubmatch(document)
	if block == nil {
		t.Fatal("docs/operations.md does not say how to install evictd any more")
	}
	return string(block[1])
}

func size(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		info, statErr := d.Info()
		if err := errors.Join(err, statErr); err != nil {
			return err
		}
		bytes += info.Size()
		return nil
	}))
	return bytes
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
