package process

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/daemon"
)

// awaitHealth waits until /healthz has this code and says all that.
func awaitHealth(t *testing.T, d *daemon.Daemon, code int, says ...string) {
	t.Helper()
	daemon.Eventually(t, 20*time.Second, func() error {
		got, text := d.Get("/healthz")
		if got != code {
			return fmt.Errorf("/healthz = %d %q, want %d", got, text, code)
		}
		return saysAll(text, says...)
	})
}

// A rollout went on to all nodes with a plugin that no node ran: nothing but a log line said so.
func TestAListedPluginThatDoesNotServeMakesTheHostNotReady(t *testing.T) {
	wrong := strings.Repeat("0f", 32)
	for name, c := range map[string]struct {
		plugin   string
		spoil    func(file string) error
		settings map[string]any
		state    string
		cause    string // FILE stands for the plugin's
		hint     string
	}{
		"another file than the pinned one": {"oldest", nil, map[string]any{"sha256": wrong}, "refused: ", "FILE: has sha256 ", ", want " + wrong + "\n"},
		"an unknown field":                 {"disk", nil, map[string]any{"config": map[string]any{"color": "red"}}, "refused: ", "color", "\n"},
		"no interpreter": {"oldest", func(file string) error {
			return os.WriteFile(file, []byte("#!/nonexistent/sh\n"), 0o755)
		}, nil, "refused: ", "the interpreter or loader that it names is missing", "\n"},
		"a user that is not there": {"oldest", nil, map[string]any{"user": "nosuchuser"}, "refused: ", `user: "nosuchuser": `, "want the name of a user of this machine or a number\n"},
		"no file":                  {"oldest", os.Remove, nil, "", "is not there: want FILE or FILE.sock", ", or plugins.oldest.required: false\n"},
		"a crash at the start":     {"exits", nil, nil, "", "exit status 3", "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			file := filepath.Join(w.plugins("memory", c.plugin), c.plugin)
			if c.spoil != nil {
				if err := c.spoil(file); err != nil {
					t.Fatal(err)
				}
			}
			cause := strings.ReplaceAll(c.cause, "FILE", file)
			listed := func(d *daemon.Daemon) {
				t.Helper()
				daemon.Eventually(t, 10*time.Second, func() error {
					out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), "plugins", "--run-dir", d.RunDir).CombinedOutput()
					return errors.Join(err, saysAll(string(out), "\n"+c.plugin+" ", cause))
				})
			}
			optional := map[string]any{"required": false}
			maps.Copy(optional, c.settings)
			w.config["plugins"] = map[string]any{c.plugin: optional}
			d := w.startReady()
			listed(d)
			awaitHealth(t, d, http.StatusOK, "ok\n")
			d.Signal(syscall.SIGTERM)
			d.Wait(10 * time.Second)

			w.config["plugins"] = map[string]any{c.plugin: c.settings}
			d = w.startReady()
			awaitHealth(t, d, http.StatusServiceUnavailable, "plugin "+c.plugin+": "+c.state, cause, c.hint)
			listed(d)
			out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), "check", "--config", d.ConfigFile, "--start-plugins=false").CombinedOutput()
			if err == nil || strings.Count(string(out), cause) != 1 {
				t.Errorf("evictctl check: %v, want an error with %q once: %s", err, cause, out)
			}
			w.pressure()
			if got := d.AwaitMsg("evicting pod", 5*time.Second); got.String("pod") != "default/big" || got.String("ranker") != "memory" {
				t.Errorf("victim %s by %s, want default/big by memory", got.String("pod"), got.String("ranker"))
			}
			if c.settings == nil {
				daemon.Install(t, daemon.Build(t, "oldest"), file)
			} else {
				right := d.Config()
				right["plugins"] = map[string]any{c.plugin: nil}
				d.WriteConfig(right)
				d.Signal(syscall.SIGHUP)
			}
			awaitHealth(t, d, http.StatusOK, "ok\n")
		})
	}
}
