package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A purge took the administrator's drop-ins of the unit along, which no package has made. It removes
// what evictctl protect-node --write has written.
func TestAPurgeLeavesDropInsOfTheUnit(t *testing.T) {
	stubs, units := t.TempDir(), t.TempDir()
	for name, does := range map[string]string{
		"rm": `for what; do echo "removes $what"; done`, "rmdir": `echo "removes $1" && exit 1`, "systemctl": `echo "$1"`, "getent": "exit 2", "userdel": ":",
		"grep": `exec ` + tool(t, "grep") + ` "$@"`,
	} {
		if err := os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/sh\n"+does+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{
		"system.slice.d/50-evictd.conf":    "# evictctl protect-node --write made this file, evictctl protect-node --remove removes it.\n[Slice]\n",
		"evictd.service.d/50-evictd.conf":  "[Service]\n",
		"evictd.service.d/60-another.conf": "# evictctl protect-node --write made this file\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(units, file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(units, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("postremove.sh")
	if err != nil {
		t.Fatal(err)
	}
	booted := t.TempDir()
	moved := strings.NewReplacer("/etc/systemd/system", units, "/run/systemd/system", booted).Replace(string(script))
	const reload, run = "daemon-reload\n--quiet\n", "removes -rf\nremoves /run/evictd\n"
	for how, want := range map[string]string{
		"upgrade": "",
		"remove":  reload + run,
		"purge": "removes UNITS/system.slice.d/50-evictd.conf\nremoves UNITS/system.slice.d\n" + reload + run +
			"removes -rf\nremoves /etc/evictd\nremoves /usr/libexec/evictd\nremoves /var/lib/evictd\n",
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", moved, "postremove.sh", how)
		cmd.Env = []string{"PATH=" + stubs}
		said, err := cmd.CombinedOutput()
		if got := strings.ReplaceAll(string(said), units, "UNITS"); err != nil || got != want {
			t.Errorf("%s: %v\n%swant\n%s", how, err, got, want)
		}
	}
}

func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
