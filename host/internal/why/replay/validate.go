package replay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// problems collects the errors of a scenario, each with the path of its field.
type problems []error

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, errors.New(strings.TrimPrefix(path+": "+fmt.Sprintf(format, args...), ": ")))
}

// maxSeconds is more than a scenario needs, and far below the maximum of a duration.
const maxSeconds = 1e9

// problems returns everything wrong with t beyond its form. The manager validates the
// configuration. Checks that only help authors are skipped for a recorded scenario.
func (t *Trace) problems() []error {
	if t.Scenario == nil {
		return []error{errors.New("scenario: missing")}
	}
	s, c := t.Scenario, checker{active: map[string]bool{}}
	if s.SchemaVersion != SchemaVersion {
		c.add("schemaVersion", "%d: want %d", s.SchemaVersion, SchemaVersion)
	}
	if layouts := []string{LayoutShared, LayoutImageFs, LayoutContainerFs}; !slices.Contains(layouts, s.FilesystemLayout) {
		c.add("filesystemLayout", "%q: want one of %s", s.FilesystemLayout, strings.Join(layouts, ", "))
	}
	c.join("pods", s.Pods)
	if len(s.Steps) == 0 && t.Decisions == nil {
		c.add("steps", "none: want at least one, each a pass of the manager")
	}
	for i := range s.Steps {
		c.step(fmt.Sprintf("steps[%d]", i), &s.Steps[i])
	}
	if len(s.Steps) > 0 && s.Steps[0].Summary == nil && s.Steps[0].SummaryError == "" {
		c.add("steps[0].summary", "missing: want the kubelet's stats summary; later steps without one see the one before")
	}
	return c.problems
}

// checker tracks which pods are active.
type checker struct {
	problems

	active map[string]bool
}

func (c *checker) step(path string, s *Step) {
	c.seconds(path+".advanceSeconds", s.AdvanceSeconds)
	for i, uid := range s.RemovePods {
		if !c.active[uid] {
			c.add(fmt.Sprintf("%s.removePods[%d]", path, i), "%q: want the uid of an active pod, %s", uid, c.known())
		}
		delete(c.active, uid)
	}
	for i, p := range s.UpdatePods {
		at := fmt.Sprintf("%s.updatePods[%d]", path, i)
		if c.identity(at, p) && !c.active[string(p.UID)] {
			c.add(at+".metadata.uid", "%q: want the uid of an active pod, %s", p.UID, c.known())
		}
	}
	c.join(path+".addPods", s.AddPods)
	for _, uid := range slices.Sorted(maps.Keys(s.KillErrors)) {
		if uid != everyPod && !c.active[uid] {
			c.add(fmt.Sprintf("%s.killErrors[%q]", path, uid), `want "*" or the uid of an active pod, %s`, c.known())
		}
	}
	if s.CleanupSeconds != nil {
		c.seconds(path+".cleanupSeconds", *s.CleanupSeconds)
	}
	for i, p := range s.Admit {
		c.identity(fmt.Sprintf("%s.admit[%d]", path, i), p)
	}
}

func (c *checker) seconds(path string, seconds float64) {
	if math.IsNaN(seconds) || seconds < 0 || seconds > maxSeconds {
		c.add(path, "%v: want 0 to %v seconds", seconds, float64(maxSeconds))
	}
}

// join adds pods to the active ones.
func (c *checker) join(path string, pods []*v1.Pod) {
	for i, p := range pods {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !c.identity(at, p) {
			continue
		}
		if c.active[string(p.UID)] {
			c.add(at+".metadata.uid", "%q: another active pod has it, want one of its own", p.UID)
		}
		c.active[string(p.UID)] = true
	}
}

// identity checks that p can be distinguished from other pods and found in summaries.
func (c *checker) identity(path string, p *v1.Pod) bool {
	if p.UID == "" {
		c.add(path+".metadata.uid", "missing (pod %q): want a uid, as in podRef of the summary", cmp.Or(p.Name, "without a name"))
	}
	if p.Name == "" {
		c.add(path+".metadata.name", "missing: want a name")
	}
	return p.UID != ""
}

func (c *checker) known() string {
	const most = 5
	uids := slices.Sorted(maps.Keys(c.active))
	switch {
	case len(uids) == 0:
		return "of which there is none"
	case len(uids) > most:
		return fmt.Sprintf("such as %s", strings.Join(uids[:most], ", "))
	default:
		return "one of " + strings.Join(uids, ", ")
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
