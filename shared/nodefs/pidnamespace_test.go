package nodefs

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckPIDNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		status string
		want   error
	}{
		"the node's own":                 {"Pid:\t7\nNSpid:\t7\nThreads:\t1\n", nil},
		"a container's":                  {"Pid:\t4711\nNSpid:\t4711\t7\nThreads:\t1\n", errOwnPIDNamespace},
		"a container in a container":     {"NSpid:\t4711\t70\t7\n", errOwnPIDNamespace},
		"a kernel without namespaces":    {"Pid:\t7\nThreads:\t1\n", nil},
		"a /proc that does not show us":  {"", errOwnPIDNamespace},
		"a name that contains the key":   {"Name:\tNSpid:\nNSpid:\t7\n", nil},
		"the last line, not broken":      {"Pid:\t7\nNSpid:\t7", nil},
		"spaces instead of tabulators":   {"NSpid: 7 8\n", errOwnPIDNamespace},
		"the first line, as nowhere yet": {"NSpid:\t7\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			if c.status != "" {
				write(t, root, "proc/self/status", c.status)
			}
			for _, nested := range []bool{false, true} {
				err := FS{Root: root}.CheckPIDNamespace(nested)
				if !errors.Is(err, c.want) || err == nil != (c.want == nil) {
					t.Errorf("nested %v: error is %v, want %v", nested, err, c.want)
				}
				if err != nil && !strings.Contains(err.Error(), "hostPID: true") {
					t.Errorf("error %q does not say what to do", err)
				}
			}
		})
	}
}

func TestCheckPIDNamespaceOfGarbage(t *testing.T) {
	root := t.TempDir()
	write(t, root, "proc/self/status", "NSpid:\tx\n")
	if err := (FS{Root: root}).CheckPIDNamespace(false); err == nil || !strings.Contains(err.Error(), `/proc/self/status: NSpid: "x" is not a pid`) {
		t.Errorf("error is %v, want one with the file", err)
	}
}

func TestTheRootShowsTheFirstNamespaceOrANestedNode(t *testing.T) {
	if err := checkInitialPIDNamespace("pid:[4026531836]"); err != nil {
		t.Errorf("the machine's first namespace is refused: %v", err)
	}
	err := checkInitialPIDNamespace("pid:[4026532175]")
	if err == nil || !strings.Contains(err.Error(), "pid:[4026532175]") || !strings.Contains(err.Error(), "hostPID: true") {
		t.Errorf("error is %v, want one with the namespace and what to do", err)
	}
	if err := (FS{}).CheckPIDNamespace(true); err != nil {
		t.Errorf("this process in a nested node: %v", err)
	}
}

func FuzzParseNSpid(f *testing.F) {
	f.Add([]byte("Pid:\t7\nNSpid:\t7\t8\n"))
	f.Add([]byte("NSpid:\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if n, err := parseNSpid(in); n < 0 || err != nil && n != 0 {
			t.Errorf("%d namespaces, %v", n, err)
		}
	})
}
