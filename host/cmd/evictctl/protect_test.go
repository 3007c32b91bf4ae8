package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/ground/systemd"
	"github.com/evictd/evictd/shared/testos"
)

const systemDropIn = "etc/systemd/system/system.slice.d/50-evictd.conf"

// systemdNode returns a node of systemd below a directory, and a function that runs evictd
// protect-node on it and returns what systemctl was called with.
func systemdNode(t *testing.T) (root string, protectNode func(args ...string) (result, string)) {
	t.Helper()
	n := newNode(t)
	root = filepath.Join(n.dir, "root")
	if err := os.CopyFS(root, os.DirFS("../../internal/ground/systemd/testdata/node")); err != nil {
		t.Fatal(err)
	}
	testos.Put(t, filepath.Join(root, fmt.Sprintf("proc/%d/cgroup", os.Getpid())), "0::/system.slice/containerd.service\n", 0o755)
	calls := filepath.Join(n.dir, "calls")
	testos.Put(t, filepath.Join(n.dir, "bin/systemctl"), "#!/bin/sh\n[ ! -e "+n.dir+"/broken ] || { echo no bus >&2; exit 1; }\n[ \"$1\" != show ] || exec sh "+n.dir+"/show\necho \"$@\" >> "+calls+"\n", 0o755)
	testos.Put(t, filepath.Join(n.dir, "show"), "", 0o644)
	t.Setenv("PATH", filepath.Join(n.dir, "bin")+":"+os.Getenv("PATH"))
	return root, func(args ...string) (result, string) {
		t.Helper()
		_ = os.Remove(calls)
		got := evictctl(t, append([]string{"protect-node"}, n.with("rootDir", root).flags(t, args...)...)...)
		said, _ := os.ReadFile(calls) // none if it was not called
		return got, string(said)
	}
}

// filesOf returns the files below etc/systemd with their texts.
func filesOf(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "etc/systemd"), func(path string, e os.DirEntry, err error) error {
		if err != nil || path == filepath.Join(root, "etc/systemd/system") {
			return err
		}
		name, _ := filepath.Rel(root, path)
		files[name] = ""
		if !e.IsDir() {
			text, err := os.ReadFile(path)
			files[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestProtectNodePrintsWritesAndRemoves(t *testing.T) {
	root, protectNode := systemdNode(t)
	before := filesOf(t, root)
	const mark = "# evictctl protect-node --write made this file, evictctl protect-node --remove removes it.\n"
	const want = "# /etc/systemd/system/system.slice.d/50-evictd.conf\n" + mark + "[Slice]\nMemoryMin=184M\n\n" +
		"# /etc/systemd/system/containerd.service.d/50-evictd.conf\n" + mark + "[Service]\nMemoryMin=120M\nCPUWeight=1000\nIOWeight=1000\n\n" +
		"# /etc/systemd/system/evictd.service.d/50-evictd.conf\n" + mark + "[Service]\nMemoryMin=64M\nCPUWeight=1000\nIOWeight=1000\n\n"
	if got, calls := protectNode(); got != (result{0, want, ""}) || calls != "" || !cmp.Equal(filesOf(t, root), before) {
		t.Errorf("%+v, systemctl %q, files %v; want\n%s", got, calls, filesOf(t, root), want)
	}
	for range 2 { // the second time its own files are replaced
		if got, calls := protectNode("--write"); got != (result{0, want, ""}) || calls != "daemon-reload\n" {
			t.Errorf("--write: %+v, systemctl %q", got, calls)
		}
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(want, "\n\n"), "\n\n") {
		name, text, _ := strings.Cut(part, "\n")
		if got, err := os.ReadFile(root + strings.TrimPrefix(name, "# ")); string(got) != text+"\n" || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, got, err, text)
		}
	}
	other := filepath.Join(root, "etc/systemd/system/evictd.service.d/10-mine.conf")
	testos.Put(t, other, "[Service]\n", 0o755)
	if got, calls := protectNode("--remove"); got != (result{}) || calls != "daemon-reload\n" {
		t.Errorf("--remove: %+v, systemctl %q", got, calls)
	}
	if err := os.RemoveAll(filepath.Dir(other)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, filesOf(t, root)); diff != "" {
		t.Errorf("what --remove leaves:\n%s", diff)
	}
}

func TestProtectNodeKeepsFilesOfOthers(t *testing.T) {
	for name, put := range map[string]func(file string) error{
		"an administrator's": func(file string) error { return os.WriteFile(file, []byte("[Slice]\nMemoryMin=1G\n"), 0o600) },
		"empty":              func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"masked":             func(file string) error { return os.Symlink("/dev/null", file) },
	} {
		root, protectNode := systemdNode(t)
		file := filepath.Join(root, systemDropIn)
		testos.Mkdir(t, filepath.Dir(file), 0o755)
		if err := put(file); err != nil {
			t.Fatal(err)
		}
		before := filesOf(t, root)
		if got, _ := protectNode(); got.Code != 0 {
			t.Errorf("%s: %+v, want it only printed", name, got)
		}
		want := "evictctl: " + file + ": evictctl protect-node has not written this file, and does not replace it; want it removed or renamed\n"
		if got, calls := protectNode("--write"); got.Code != command.ExitFailure || got.Errors != want || calls != "" {
			t.Errorf("%s: %+v, systemctl %q, want %s", name, got, calls, want)
		}
		if got, _ := protectNode("--remove"); got.Code != 0 {
			t.Errorf("%s: --remove: %+v", name, got)
		}
		if diff := cmp.Diff(before, filesOf(t, root)); diff != "" {
			t.Errorf("%s (-before +after):\n%s", name, diff)
		}
	}
}

func TestProtectNodeSaysWhatPreventsIt(t *testing.T) {
	root, protectNode := systemdNode(t)
	testos.Put(t, filepath.Join(root, "../broken"), "", 0o755)
	if got, _ := protectNode("--write"); got.Code != command.ExitFailure || got.Errors != "evictctl: systemctl daemon-reload: exit status 1: no bus\n" {
		t.Errorf("systemctl fails: %+v", got)
	}
	if got, _ := protectNode("--write", "--remove"); got.Code != command.ExitUsage {
		t.Errorf("both: %+v", got)
	}
	if err := os.RemoveAll(filepath.Join(root, "run/systemd")); err != nil {
		t.Fatal(err)
	}
	if got, _ := protectNode("--write"); got.Code != command.ExitFailure || !strings.HasSuffix(got.Errors, "no such file or directory: want a node that systemd has booted\n") {
		t.Errorf("without systemd: %+v", got)
	}
}

// With systemd 257 memory.min was 0 after --write: it is written when another unit of the slice starts.
func TestProtectNodeIsInForceAtItsEnd(t *testing.T) {
	root, protectNode := systemdNode(t)
	const cgroup = "/system.slice/containerd.service"
	file := filepath.Join(root, "sys/fs/cgroup", cgroup, "memory.min")
	before := testos.ReadFile(t, file)
	testos.Put(t, filepath.Join(root, "../show"), "printf 'MemoryMin=125829120\nControlGroup="+cgroup+"\n'\n", 0o644)
	testos.Put(t, filepath.Join(root, "../bin/systemd-run"), "#!/bin/sh\n[ \"$*\" = '--quiet --collect --slice=system.slice true' ] && echo 125829120 >"+file+"\n", 0o755)
	if got, _ := protectNode("--write"); got.Code != 0 {
		t.Errorf("%+v", got)
	}
	if now := string(testos.ReadFile(t, file)); now != "125829120\n" || now == string(before) {
		t.Errorf("memory.min was %q and is %q at the end of --write", before, now)
	}
}

func TestThePurgeKnowsTheDropInsByTheirMark(t *testing.T) {
	script := testos.ReadFile(t, "../../../deploy/packages/postremove.sh")
	_, mark, _ := strings.Cut(string(script), "grep -qs '^")
	if mark, _, _ = strings.Cut(mark, "'"); mark == "" || !strings.HasPrefix(systemd.Mark, mark) || !strings.Contains(string(script), systemd.Path("*")) {
		t.Errorf("the script looks for %q", mark)
	}
}
