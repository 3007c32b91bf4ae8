package inspect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// Of a pod on the host's network that did not reach the API server check said "dial tcp
// 10.96.0.1:443: i/o timeout" alone.
func TestCheckSaysWhereTheAPIServerOfAPodIsConfigured(t *testing.T) {
	away := fmt.Errorf("list: %w", &url.Error{Op: "Get", URL: "https://10.96.0.1:443", Err: errors.New("i/o timeout")})
	for name, c := range map[string]struct {
		kubeconfig string
		err        error
		want       bool
	}{
		"a pod":             {"", away, true},
		"on the host":       {"/etc/evictd/kubeconfig", away, false},
		"it answers and no": {"", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role")), false},
	} {
		got := wantReachable(c.kubeconfig, c.err)
		if !errors.Is(got, c.err) || strings.Contains(got.Error(), "apiServer.host and apiServer.port of the chart") != c.want {
			t.Errorf("%s: %v, want the chart's values %t", name, got, c.want)
		}
	}
}

// The runtime named a directory of images that did not exist: imagefs was unknown, and neither
// /healthz nor evictctl check said so.
func TestAnImageFilesystemThatIsNotThereIsSaid(t *testing.T) {
	s, dir := fakecri.Start(t), t.TempDir()
	c := &config.Config{RuntimeEndpoint: s.Endpoint(), ImageEndpoint: s.Endpoint(), KubeletRootDir: dir, RootDir: "/", Source: config.SourceNative}
	look := func() string {
		var f Findings
		n := newNode(t.Context(), Options{Config: c})
		defer n.close()
		tryLayout(t.Context(), n, &f)
		return strings.Join(f.Texts(Warning), " ")
	}
	for name, step := range map[string]struct {
		info *runtimeapi.ImageFsInfoResponse
		dir  string
		want string
	}{
		"not implemented": {nil, "", "(Unimplemented)"},
		"none":            {&runtimeapi.ImageFsInfoResponse{}, "", "the container runtime names no directory of images"},
		"not there":       {nil, dir + "/gone", "stat " + dir + "/gone: no such file or directory: without that directory imagefs and containerfs are not observed"},
		"there":           {nil, dir, ""},
	} {
		s.SetImageFs(step.info)
		if step.dir != "" {
			s.SetImageDir(step.dir)
		}
		got := look()
		if !strings.Contains(got, step.want) || (got == "") != (step.want == "") {
			t.Errorf("%s: %q, want %q", name, got, step.want)
		}
	}
	s.Die()
	if got := look(); got != "" {
		t.Errorf("%q of a runtime that does not answer, which is said elsewhere", got)
	}
}

func TestEachProbeIsDocumented(t *testing.T) {
	text := testos.ReadFile(t, "../../../../docs/operations.md")
	_, table, _ := strings.Cut(string(text), "### What `evictctl check` tries\n")
	table, _, _ = strings.Cut(table, "\n#")
	for _, p := range probes {
		if !strings.Contains(table, "`"+p.name+"`") {
			t.Errorf("docs/operations.md has no row of %s", p.name)
		}
	}
}

// A kubelet and evictd in a container of 9 GiB, on a machine of 32, evicted at thresholds of 32.
func TestCheckSaysWhichCgroupLimitsTheNode(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/meminfo": "MemTotal: 33554432 kB\n", "proc/loadavg": "0 0 0 1/2000 9\n", "proc/sys/kernel/pid_max": "250400\n", "proc/self/status": "NSpid:\t1\n",
		"sys/fs/cgroup/cgroup.controllers": "memory pids\n", "sys/fs/cgroup/memory.max": "9663676416\n",
		"sys/fs/cgroup/memory.current": "1\n", "sys/fs/cgroup/memory.stat": "inactive_file 0\n",
		"sys/fs/cgroup/pids.max": "2048\n", "sys/fs/cgroup/pids.current": "2040\n",
	} {
		testos.Put(t, filepath.Join(root, name), text, 0o600)
	}
	cfg := config.Default()
	cfg.RootDir, cfg.EvictionHard = root, map[string]string{"pid.available": "1k", "memory.available": "100Mi"}
	all := run(t.Context(), Options{Config: &cfg, left: new(hang.Left)}, func(p probe) bool { return p.name == "capacity" || p.name == "thresholds" })
	for _, want := range []string{"pid.available<1k is met now: 8 available of 2048", "memory.available is counted below the limit of /, 9Gi,", "pid.available is counted below the limit of /, 2048,"} {
		if !strings.Contains(strings.Join(all.Texts(Advice), "\n"), want) {
			t.Errorf("%q, want %q", all.Texts(Advice), want)
		}
	}
}

// On a node with SELinux evictd in a pod was refused the runtime's socket as root, and check said "permission denied" alone.
func TestCheckNamesSELinux(t *testing.T) {
	former := probes
	t.Cleanup(func() { probes = former })
	probes = []probe{{name: "files", deadline: deadline, try: func(_ context.Context, _ *node, f *Findings) {
		f.add(Warning, "runDir: %v", &fs.PathError{Op: "open", Path: "/run/evictd", Err: unix.EACCES})
		f.add(Error, "dial unix /run/containerd/containerd.sock: connect: permission denied")
		f.add(Error, "kubeletRootDir: does not exist")
	}}}
	for enforce, want := range map[string]int{"1": 2, "0": 0, "": 0} {
		c := config.Default()
		c.RootDir = t.TempDir()
		if enforce != "" {
			testos.MkdirAll(t, c.RootDir+"/sys/fs/selinux", 0o755)
			testos.WriteFile(t, c.RootDir+"/sys/fs/selinux/enforce", enforce, 0o600)
		}
		named := 0
		for _, f := range Run(t.Context(), Options{Config: &c}) {
			if strings.HasSuffix(f.Text, "permission denied; if SELinux has refused it (ausearch -m avc), want evictd with the type spc_t") {
				named++
			}
		}
		if named != want {
			t.Errorf("enforce %q: %d findings name SELinux, want %d", enforce, named, want)
		}
	}
}
