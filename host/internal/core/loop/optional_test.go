package loop

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// addOptional adds the step trim to nodefs.available, which the disk plugin's configuration may
// enable.
func addOptional(n *node, config string) {
	of := &n.plugins.builtin[1].Plugin.Signals[0]
	of.ReclaimSteps = slices.Insert(slices.Clone(of.ReclaimSteps), 1, eviction.ReclaimStep{Name: "trim", EnabledBy: "trim"})
	n.plugins.configs = map[string]string{"disk": config}
}

// What differs in each run: metrics of the Go runtime, and the random part of a record's name.
var (
	ofTheRun = regexp.MustCompile(`^(# [A-Z]+ )?(go|process)_`)
	recordID = regexp.MustCompile(`Z-[0-9a-f]{8}`)
)

// A step that is off must not be called, and not be named as one that did not run: it would delay
// an eviction where there is no other step.
func TestAStepThatTheConfigurationDoesNotEnableLeavesNoTrace(t *testing.T) {
	trace := func(t *testing.T, layout, config string, dryRun bool, skip string, listed bool) (out string, ran bool) {
		story(t, func(t *testing.T, n *node) {
			d := n.addDisk()
			d.layout, d.volumes["uid-big"] = layoutReports[layout], 10*gi
			if listed {
				addOptional(n, config)
			}
			n.options.SkipStepsBecause = skip
			kept := n.record()
			s := diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10Gi"}})
			s.DryRun = dryRun
			n.start(s)
			d.set(5 * gi)
			n.after(time.Minute)
			record, err := json.Marshal(kept.last.Decision)
			if err != nil || len(kept.last.Evicted) == 0 {
				t.Fatalf("no record of an eviction: %v", err)
			}
			status, err := json.Marshal(n.loop.Snapshot())
			if err != nil {
				t.Fatal(err)
			}
			out = fmt.Sprintf("%q\n%s\n%s\n%s\n", n.did.story(), record, status, n.log.String())
			for line := range strings.Lines(exposition(n.loop)) {
				if !ofTheRun.MatchString(line) {
					out += line
				}
			}
			lines := strings.Split(recordID.ReplaceAllString(out, "Z-"), "\n")
			slices.Sort(lines) // reliefs of one moment are logged in any order
			out = strings.Join(lines, "\n")
			ran = n.did.count("reclaim trim") > 0
		})
		return out, ran
	}
	for layout := range layoutReports {
		for _, skip := range []string{"", "it frees things here"} {
			for _, dryRun := range []bool{false, true} {
				t.Run(fmt.Sprint(layout, " ", skip, " dry run ", dryRun), func(t *testing.T) {
					want, _ := trace(t, layout, "", dryRun, skip, false)
					for _, config := range []string{"", "{}", `{"trim":false}`, `{"trIm":true}`, `{"trim":"true"}`, `{"disk":{"trim":true}}`, "["} {
						got, _ := trace(t, layout, config, dryRun, skip, true)
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("with %s (-without the step +with it):\n%s", config, diff)
						}
					}
					got, ran := trace(t, layout, `{"trim":true}`, dryRun, skip, true)
					if ran != (skip == "" && !dryRun) || !strings.Contains(got, "trim") {
						t.Errorf("enabled, it ran: %v\n%s", ran, got)
					}
				})
			}
		}
	}
}

// No kubelet has an optional step: the node is observed before and after it, so that it does not
// run if another one was enough, and spares those after it.
func TestAnOptionalStepRunsOnlyIfItIsNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		frees map[string]int64
		want  string
	}{
		"the step before is enough": {map[string]int64{"container-gc": 20 * gi}, "container-gc"},
		"it is enough":              {map[string]int64{"container-gc": 2 * gi, "trim": 20 * gi}, "container-gc trim"},
		"it is not":                 {map[string]int64{"trim": gi, "image-gc": 20 * gi}, "container-gc trim image-gc"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.frees = c.frees
				addOptional(n, `{"trim":true}`)
				n.start(diskSettings(t, hardDisk("10Gi")))
				d.set(5 * gi)
				n.after(time.Minute)
				n.wantKills()
				var got []string
				for _, s := range n.loop.Snapshot().Reclaims[0].Steps {
					got = append(got, s.Step)
				}
				if got := strings.Join(got, " "); got != c.want || n.did.count("reclaim ") != len(strings.Fields(c.want)) {
					t.Errorf("steps %q, want %q: %q", got, c.want, n.did.story())
				}
			})
		})
	}
}

// What a step before it has freed is not freed again.
func TestAnOptionalStepGetsWhatIsStillMissing(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.frees = map[string]int64{"container-gc": 3 * gi, "trim": 3 * gi}
		addOptional(n, `{"trim":true}`)
		disk := n.plugins.builtin[1].Plugin
		disk.Reclaimer = reclaimer(func(r eviction.ReclaimRequest) (eviction.Reclaimed, error) {
			n.did.note("%s is short of %d Gi", r.Step, r.Shortfall/gi)
			return d.Reclaim(t.Context(), r, nil)
		})
		n.start(diskSettings(t, hardDisk("10Gi")))
		d.set(5 * gi)
		n.after(10 * time.Second)
		if n.did.count("container-gc is short of 5 Gi") != 1 || n.did.count("trim is short of 2 Gi") != 1 {
			t.Errorf("%q, want 5 Gi missing before container-gc, and 2 before trim", n.did.story())
		}
	})
}
