package programs_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/node/programs"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

// A process of this machine is found as those in recorded files are.
func TestARunningKillerIsFound(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "earlyoom")
	testos.WriteFile(t, program, testos.ReadFile(t, sleep), 0o700)
	killer := exec.CommandContext(t.Context(), program, "60")
	if err := killer.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = killer.Wait() }) // the context has ended it
	found := programs.Killers(nodefs.FS{})
	if want := fmt.Sprintf("earlyoom (process %d) kills", killer.Process.Pid); !slices.ContainsFunc(found, func(k programs.Killer) bool { return strings.HasPrefix(k.Does, want) }) {
		t.Errorf("%q, want %s", found, want)
	}
}

// A pod went by the hand of another killer, and no word of evictd named one.
func TestOtherKillersAreNamed(t *testing.T) {
	process := func(name, args string) map[string]string {
		return map[string]string{"/proc/70/comm": name + "\n", "/proc/70/cmdline": strings.ReplaceAll(args, " ", "\x00") + "\x00", "/proc/70/cgroup": "0::/system.slice/x.service\n"}
	}
	with := func(files map[string]string, more ...string) map[string]string {
		for i := 0; i < len(more); i += 2 {
			files[more[i]] = more[i+1]
		}
		return files
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string // what the only one does, its beginning
	}{
		"nothing":                      {files: process("sshd", "sshd")},
		"earlyoom":                     {files: process("earlyoom", "/usr/bin/earlyoom -r 3600"), want: "earlyoom (process 70) kills the process with the highest oom_score, of BestEffort pods first, when less than 10% of memory, and of swap, is available"},
		"earlyoom with a percentage":   {files: process("earlyoom", "earlyoom -m 4,2 -s 100"), want: "earlyoom (process 70) kills the process with the highest oom_score, of BestEffort pods first, when less than 4,2% of memory, and of swap,"},
		"earlyoom with an amount":      {files: process("earlyoom", "earlyoom -M 409600"), want: "earlyoom (process 70) kills the process with the highest oom_score, of BestEffort pods first, when less than 409600KiB of memory is available"},
		"earlyoom of a pod":            {files: with(process("earlyoom", "earlyoom"), "/proc/70/cgroup", "0::/kubepods.slice/x\n")},
		"nohang":                       {files: process("nohang", "python3 /usr/bin/nohang --config /etc/nohang/nohang.conf"), want: "nohang (process 70) kills as its file says"},
		"systemd-oomd without a slice": {files: with(process("systemd-oomd", "/usr/lib/systemd/systemd-oomd"), "/usr/lib/systemd/system/user@.service.d/10-oomd-user-service-defaults.conf", "[Service]\nManagedOOMMemoryPressure=kill\n")},
		"systemd-oomd with Fedora's root slice": {
			files: with(process("systemd-oomd", "/usr/lib/systemd/systemd-oomd"), "/usr/lib/systemd/system/-.slice.d/10-oomd-root-slice-defaults.conf", "[Slice]\nManagedOOMSwap=kill\n"),
			want:  "systemd-oomd (process 70) kills the cgroup below -.slice (ManagedOOMSwap) that takes most swap",
		},
		"a slice without systemd-oomd": {files: map[string]string{"/etc/systemd/system/kubepods.slice.d/x.conf": "[Slice]\nManagedOOMSwap=kill\n", "/proc/1/comm": "systemd\n"}},
		"Talos":                        {files: map[string]string{"/etc/os-release": "NAME=\"Talos\"\nID=talos\nVERSION_ID=v1.12.0\n"}, want: "from 1.12 on the OOM controller of Talos kills"},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodefs.FS{Root: t.TempDir()}
			for path, text := range c.files {
				testos.MkdirAll(t, filepath.Dir(node.Root+path), 0o755)
				testos.WriteFile(t, node.Root+path, text, 0o600)
			}
			got := programs.Killers(node)
			if (c.want == "") != (len(got) == 0) || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0].Does, c.want)) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
