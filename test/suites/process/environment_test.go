package process

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

// docs/protocol.md has a table of what is in a plugin's environment, and says that
// there is nothing else. A script that shows its own is in the place of a plugin.
func TestTheEnvironmentIsAsDocumented(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs real processes: run make test")
	}
	text := testos.ReadFile(t, "../../../docs/protocol.md")
	_, table, _ := strings.Cut(string(text), "\n### Environment\n")
	table, _, _ = strings.Cut(table, "\n###")
	var want []string
	for row := range strings.SplitSeq(table, "\n") {
		if cells := strings.Split(row, "|"); len(cells) > 2 {
			for _, name := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(cells[1], -1) {
				want = append(want, name[1])
			}
		}
	}
	slices.Sort(want)

	script := filepath.Join(t.TempDir(), "shows")
	show := "#!/bin/sh\ntr '\\0' '\\n' </proc/$$/environ >&2\necho cwd=$(pwd) umask=$(umask) stdin=$(cat) >&2\necho that is all >&2\n"
	testos.WriteFile(t, script, show, 0o755)
	dir := daemon.PluginDir(t)
	daemon.Install(t, script, filepath.Join(dir, "shows"))
	d := daemon.Start(t, map[string]any{"pluginDir": dir, "rootDir": daemon.NewNode(t, gib).Root})
	d.Await("the end of the script", 30*time.Second, func(r evictd.Record) bool { return r.String("text") == "that is all" })

	var got []string
	process := ""
	for _, r := range d.Records("plugin output") {
		line := r.String("text")
		if name, _, ok := strings.Cut(line, "="); ok && regexp.MustCompile(`^[A-Z_]+$`).MatchString(name) {
			got = append(got, name)
		} else if strings.HasPrefix(line, "cwd=") {
			process = line
		}
	}
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) { // It may have been started twice.
		t.Errorf("a plugin gets the variables %q, documented are %q", got, want)
	}
	if process != "cwd=/ umask=0077 stdin=" {
		t.Errorf("it runs with %q, documented are the directory /, the umask 0077 and an empty stdin", process)
	}
}
