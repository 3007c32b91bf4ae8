package loop

import (
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// What the configuration could not know: it is reported when the layout is, with both names.
func TestASplitFilesystemIsToldWhenTheLayoutIsKnown(t *testing.T) {
	for name, reported := range map[string]bool{"shared": true, "imagefs": false} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.forDisks(layoutReports[name])
				s := diskSettings(t, kubeletDisks())
				s.Assigned = func(s eviction.Signal, _ eviction.Capability) string {
					return map[eviction.Signal]string{eviction.NodeFsAvailable: "disk", eviction.ImageFsAvailable: "acme-images"}[s]
				}
				n.run(s, rundir.State{})
				n.after(15 * time.Second)
				log := n.log.String()
				if got := strings.Count(log, "assignments split a filesystem"); got != map[bool]int{true: 1}[reported] {
					t.Errorf("told %d times: %s", got, log)
				}
				shown := strings.Join(n.loop.Snapshot().AssignProblems, "\n")
				if !reported && shown != "" {
					t.Errorf("the status has %q, want nothing", shown)
				}
				for _, plugin := range []string{"disk", "acme-images"} {
					if reported && (!strings.Contains(log, `\"`+plugin+`\"`) || !strings.Contains(shown, `"`+plugin+`"`)) {
						t.Errorf("%s is not named in the status, %q, or the log: %s", plugin, shown, log)
					}
				}
				s.Assigned = nil
				if err := n.loop.Apply(s); err != nil {
					t.Fatal(err)
				}
				n.after(15 * time.Second)
				if shown := n.loop.Snapshot().AssignProblems; shown != nil {
					t.Errorf("the status has %q, want nothing any more", shown)
				}
			})
		})
	}
}
