package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A purge took the administrator's drop-ins of the unit along, which no package has made.
func TestAPurgeLeavesDropInsOfTheUnit(t *testing.T) {
	stubs := t.TempDir()
	for name, does := range map[string]string{"rm": `for what; do echo "removes $what"; done`, "systemctl": ":", "getent": "exit 2", "userdel": ":"} {
		if err := os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/sh\n"+does+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for how, want := range map[string]string{
		"upgrade": "",
		"remove":  "removes -rf\nremoves /run/evictd\n",
		"purge":   "removes -rf\nremoves /run/evictd\nremoves -rf\nremoves /etc/evictd\nremoves /usr/libexec/evictd\nremoves /var/lib/evictd\n",
	} {
		cmd := exec.Command("/bin/sh", "postremove.sh", how)
		cmd.Env = []string{"PATH=" + stubs}
		said, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(said)) != strings.TrimSpace(want) {
			t.Errorf("%s: %v\n%swant\n%s", how, err, said, want)
		}
	}
}
