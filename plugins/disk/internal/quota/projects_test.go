package quota

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/testos"
)

func TestParseProjects(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want map[string]uint32
	}{
		"empty": {"", map[string]uint32{}},
		"as the kubelet writes it": {
			"1048577:/var/lib/kubelet/pods/a/volumes/kubernetes.io~empty-dir/x\n1048578:/var/lib/kubelet/pods/b/volumes/kubernetes.io~empty-dir/x\n",
			map[string]uint32{
				"/var/lib/kubelet/pods/a/volumes/kubernetes.io~empty-dir/x": 1048577,
				"/var/lib/kubelet/pods/b/volumes/kubernetes.io~empty-dir/x": 1048578,
			},
		},
		"a colon in a name, no last line end":  {"7:/a:b", map[string]uint32{"/a:b": 7}},
		"cleaned, and twice the same":          {"7:/a//b/\n7:/a/b\n", map[string]uint32{"/a/b": 7}},
		"comments and nonsense":                {"# 7:/a\n\n:/b\n8\nx:/c\n-1:/d\n4294967296:/e\n9:relative\n", map[string]uint32{}},
		"zero is no project":                   {"0:/a\n", map[string]uint32{}},
		"a number for two directories":         {"7:/a\n8:/b\n7:/c\n7:/d\n", map[string]uint32{"/b": 8}},
		"two numbers for a directory":          {"7:/a\n8:/b\n9:/a\n", map[string]uint32{"/b": 8}},
		"the greatest":                         {"4294967295:/a\n", map[string]uint32{"/a": 4294967295}},
		"two unclear ones that share the name": {"7:/a\n7:/b\n8:/b\n8:/c\n", map[string]uint32{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseProjects(strings.NewReader(c.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := parseProjects(strings.NewReader("7:/" + strings.Repeat("x", 1<<20))); err == nil {
		t.Error("a line without end is read")
	}
}

func FuzzParseProjects(f *testing.F) {
	f.Add("1048577:/var/lib/kubelet/pods/a\n7:/a\n7:/b\n# c\n")
	f.Add("0:/\n1:/\n2:/\n")
	f.Fuzz(func(t *testing.T, file string) {
		ids, err := parseProjects(strings.NewReader(file))
		if err != nil {
			return
		}
		seen := map[uint32]string{}
		for dir, id := range ids {
			if id == 0 || !strings.HasPrefix(dir, "/") || seen[id] != "" {
				t.Errorf("%d is %q and %q", id, dir, seen[id])
			}
			seen[id] = dir
		}
	})
}

func TestRead(t *testing.T) {
	root := t.TempDir()
	p, err := Read(root)
	if err != nil {
		t.Fatalf("a node without the file: %v", err)
	}
	if _, ok := p.registered("/a"); ok {
		t.Error("there is a project without the file")
	}
	testos.MkdirAll(t, root+"/etc", 0o755)
	testos.WriteFile(t, root+"/etc/projects", "7:/a\n", 0o600)
	if p, err = Read(root); err != nil {
		t.Fatal(err)
	}
	if id, ok := p.registered("/a/"); id != 7 || !ok {
		t.Errorf("/a is registered as %d, %v", id, ok)
	}
	if u, ok := p.Usage("/a"); ok {
		t.Errorf("a directory that is not there takes %+v", u)
	}
	if u, ok := (*Projects)(nil).Usage("/a"); ok {
		t.Errorf("without projects %+v", u)
	}
	testos.Remove(t, root+"/etc/projects")
	testos.Mkdir(t, root+"/etc/projects", 0o755)
	if _, err := Read(root); err == nil || !strings.Contains(err.Error(), "etc/projects") {
		t.Errorf("a directory in place of the file: %v", err)
	}
}
