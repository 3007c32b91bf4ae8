package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Of an evictd that ends at its start, for a slip in its configuration, kubectl evictd said "container not found" alone.
func TestKubectlEvictdShowsTheLogOfAnEvictdThatDoesNotRun(t *testing.T) {
	const kubectl = `#!/bin/sh
case "$*" in
"get pods "*) echo "evictd evictd-x7k2p worker-1" ;;
*" exec "*) echo "container not found" >&2 && exit $EXEC ;;
*" get pod "*) echo "$RUNNING" ;;
*" --previous") echo "the lines before" ;;
*" logs "*) echo "evictionHrad: unknown field" ;;
esac
`
	stubs := t.TempDir()
	if err := os.WriteFile(filepath.Join(stubs, "kubectl"), []byte(kubectl), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  []string
		code int
		logs bool
	}{
		"it does not run":        {[]string{"EXEC=1", "RUNNING="}, 1, true},
		"the command has failed": {[]string{"EXEC=2", `RUNNING={"startedAt":"2026-01-01T00:00:00Z"}`}, 2, false},
		"all is well":            {[]string{"EXEC=0", "RUNNING="}, 0, false},
	} {
		cmd := exec.CommandContext(t.Context(), "../kubectl-evictd", "check", "--node", "worker-1")
		cmd.Env = append(c.env, "PATH="+stubs+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		said, logs := string(out), true
		for _, want := range []string{"+ kubectl -n evictd logs evictd-x7k2p -c evictd --tail=20\nevictionHrad: unknown field\n", "--tail=20 --previous\nthe lines before\n"} {
			logs = logs && strings.Contains(said, want)
		}
		if cmd.ProcessState.ExitCode() != c.code || logs != c.logs || !c.logs && strings.Contains(said, "logs") {
			t.Errorf("%s: exit code %d, want %d, with the log %t: %s", name, cmd.ProcessState.ExitCode(), c.code, c.logs, said)
		}
	}
}
