package gc

import (
	"strings"
	"testing"
)

func FuzzPodOfLogDir(f *testing.F) {
	for _, seed := range []string{
		"kube-system_etcd-node_0123456789abcdef0123456789abcdef", "ns_p_3f0a2a0e-8f5c-4d26-9a4f-2e3b7a9d1c55",
		"lost+found", "", "_", "__", "___", "a_b_", "a_b_..", ".._.._..", "a/b_c_d", "a_b_c\x00", "a_b_c d", "ä_b_c",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		uid, ok := podOfLogDir(name)
		switch {
		case !ok && uid != "":
			t.Errorf("%q: uid %q of no pod", name, uid)
		case ok && (uid == "" || !strings.HasSuffix(name, "_"+uid) || strings.ContainsAny(name, "/\x00 +") || strings.Count(name, "_") != 2):
			t.Errorf("%q was taken for the log directory of pod %q", name, uid)
		}
	})
}

func FuzzContainerOfLink(f *testing.F) {
	for _, seed := range []string{"p_ns_c-0123456789ab.log", "c-12345.log", "-0123456.log", ".log", "-", "", "a-b-0123456.log.log"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := containerOfLink(name); ok && (len(id) < 6 || strings.Contains(id, "-") || !strings.HasSuffix(name, "-"+id+".log")) {
			t.Errorf("%q was taken for the link of container %q", name, id)
		}
	})
}

func FuzzParseSandboxImage(f *testing.F) {
	for _, seed := range []string{
		`{"containerd":{"snapshotter":"overlayfs"},"sandboxImage":"registry.k8s.io/pause:3.6","maxContainerLogSize":16384}`,
		`{"sandboxImage":7}`, `{"sandboxImage":null}`, `[]`, ``, `null`, `{"sandboxImage":"a","sandboxImage":"b"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, config string) {
		if got := parseSandboxImage(config); got != "" && !strings.HasPrefix(strings.TrimSpace(config), "{") {
			t.Errorf("%q: sandbox image %q", config, got)
		}
	})
}
