package authors

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/evictd/evictd/test/harness/daemon"
)

// A module that takes the SDK from a checkout needs nothing that the checkout did not
// need to be built, also for its tests. That it builds is shown by who follows the document.
func TestModulesBuildWithoutANetwork(t *testing.T) {
	needsRoot(t)
	evictctl := daemon.Build(t, "evictctl")
	for _, kind := range []string{"rank", "disk", "signal"} {
		dir := filepath.Join(t.TempDir(), kind+"-plugin")
		for _, command := range [][]string{
			{evictctl, "plugins", "new", kind + "-plugin", "--" + kind, "--sdk", repository(t), "--dir", dir},
			{"go", "-C", dir, "list", "-deps", "-test", "./..."},
		} {
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "GOPROXY=off", "CGO_ENABLED=0")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%q: %v\n%s", command, err, out)
			}
		}
	}
}
