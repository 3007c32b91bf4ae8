package loop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// A kill that a former host decided on was finished whatever had become of the node,
// the pod and the configuration.
func TestAKillOfAFormerHostIsJudgedAnew(t *testing.T) {
	critical := int32(2_000_000_000)
	for name, c := range map[string]struct {
		ago   time.Duration
		takes time.Duration // until it is judged, 10 s if 0
		short bool
		set   func(n *node, s *Settings)
		kills int
		says  string
	}{
		"it was decided on just now":               {ago: time.Second, kills: 1, says: "finishing a kill"},
		"long ago, and the node is short":          {ago: 25 * time.Minute, short: true, kills: 1, says: "finishing a kill"},
		"long ago, and the node is well":           {ago: 25 * time.Minute, says: "long ago and the node is not short"},
		"long ago, and the signal is unknown yet":  {ago: 25 * time.Minute, short: true, set: func(n *node, _ *Settings) { n.unknownFor(3 * time.Second) }, kills: 1, says: "finishing a kill"},
		"long ago, and the threshold is gone":      {ago: 25 * time.Minute, set: func(_ *node, s *Settings) { s.Thresholds = nil }, says: "long ago and the node is not short"},
		"this host only pretends":                  {ago: time.Second, short: true, set: func(_ *node, s *Settings) { s.DryRun = true }, says: "this is a dry run"},
		"the pod has become critical":              {ago: time.Second, set: func(n *node, _ *Settings) { n.pods[1].API.Spec.Priority = &critical }, says: "may not be evicted any more"},
		"its manifest is gone":                     {ago: time.Second, set: func(n *node, _ *Settings) { n.pods[1].HasManifest = false }, takes: time.Minute, says: "nothing says what the pod is"},
		"its manifest cannot be read at the start": {ago: time.Second, set: func(n *node, _ *Settings) { n.withoutManifestFor(1, 3*time.Second) }, kills: 1, says: "finishing a kill"},
		"the pod is gone, another has its name":    {ago: time.Second, set: func(n *node, _ *Settings) { n.pods[1].Row.UID, n.running = "uid-new", map[string]bool{"uid-new": true} }, says: "pod finished"},
		"the runtime does not answer at the start": {ago: time.Second, set: func(n *node, _ *Settings) { n.unlistedFor(3 * time.Second) }, kills: 1, says: "not judged yet"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				if c.short {
					n.set(gi / 2)
				}
				s := settings(t, hard("1Gi"))
				if c.set != nil {
					c.set(n, &s)
				}
				decided := time.Now().Add(-c.ago)
				kill := rundir.Kill{
					UID: "uid-big", Namespace: "default", Name: "big", Signal: eviction.MemoryAvailable, GraceSeconds: 1,
					DecidedAt: decided, GraceEnds: decided.Add(time.Second),
				}
				n.journal["uid-big"] = kill
				n.run(s, rundir.State{Kills: []rundir.Kill{kill}})
				n.after(10*time.Second + c.takes)
				if got := n.count("kill "); got != c.kills || n.count("kill big") != c.kills {
					t.Errorf("%q, want %d kills, of big", n.story(), c.kills)
				}
				if !strings.Contains(n.log.String(), c.says) {
					t.Errorf("the log does not say %q", c.says)
				}
				if len(n.journal) != 0 {
					t.Errorf("journal has %v, want nothing", n.journal)
				}
			})
		})
	}
}

func (n *node) unknownFor(d time.Duration) {
	n.observe = func() (eviction.ObserveReply, error) { return eviction.ObserveReply{}, eviction.ErrUnavailable }
	time.AfterFunc(d, func() { n.mu.Lock(); defer n.mu.Unlock(); n.observe = nil })
}

func (n *node) unlistedFor(d time.Duration) {
	n.podsErr = errBroken
	time.AfterFunc(d, func() { n.mu.Lock(); defer n.mu.Unlock(); n.podsErr = nil })
}

func (n *node) withoutManifestFor(pod int, d time.Duration) {
	n.pods[pod].HasManifest = false
	time.AfterFunc(d, func() { n.mu.Lock(); defer n.mu.Unlock(); n.pods[pod].HasManifest = true })
}

// While the kill of a former host was not judged, as there was no list of pods, another pod
// could be chosen beside it.
func TestNobodyGoesBeforeTheKillsOfAFormerHostAreJudged(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.available, d.takes, d.late = 5*gi, 100*time.Millisecond, time.Second
		d.volumes["uid-big"], d.volumes["uid-small"] = 20*gi, 10*gi
		n.unlistedFor(150 * time.Millisecond)
		kill := rundir.Kill{
			UID: "uid-small", Namespace: "default", Name: "small", Signal: eviction.NodeFsAvailable, GraceSeconds: 1,
			DecidedAt: time.Now(), GraceEnds: time.Now().Add(time.Second),
		}
		n.journal["uid-small"] = kill
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{Kills: []rundir.Kill{kill}})
		n.after(30 * time.Second)
		if got := n.kills(); len(got) != 1 || !strings.Contains(got[0], "kill small") {
			t.Errorf("%q, want small alone, as the former host decided", got)
		}
	})
}

// A manifest that could not be read in the first pass let another pod go, and its pod as well.
func TestNoOtherPodGoesBeforeTheManifestOfAFormerVictimIsReadAgain(t *testing.T) {
	for name, c := range map[string]struct {
		unread time.Duration
		over   bool // another pod is over a limit of its own, and the node is well
		want   []string
	}{
		"pressure, it is read again":        {3 * time.Second, false, []string{"6.1s kill big grace 1"}},
		"a limit, it is read again":         {3 * time.Second, true, []string{"6.1s kill big grace 1", "6.1s kill small grace 1"}},
		"pressure, it cannot be read again": {time.Hour, false, []string{"1m2.5s kill small grace 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.available, d.late = 5*gi, 2*time.Second
				d.volumes["uid-big"], d.volumes["uid-small"] = 20*gi, 10*gi
				s := diskSettings(t, hardDisk("10Gi"))
				if c.over {
					d.available = 50 * gi
					n.limitVolume(d, "small", 1*gi, 10*gi)
				}
				began := time.Now()
				n.withoutManifestFor(1, c.unread)
				kill := rundir.Kill{
					UID: "uid-big", Namespace: "default", Name: "big", Signal: eviction.NodeFsAvailable, GraceSeconds: 1,
					DecidedAt: began, GraceEnds: began.Add(time.Second),
				}
				n.journal["uid-big"] = kill
				n.run(s, rundir.State{Kills: []rundir.Kill{kill}})
				n.after(2 * time.Minute)
				if got := slices.Sorted(slices.Values(n.kills())); !slices.Equal(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}

func TestWhetherTheNodeIsShortIsKnownFromOutside(t *testing.T) {
	for name, c := range map[string]struct {
		set       func(n *node)
		resource  string
		known, is bool
	}{
		"short":                      {func(n *node) { n.set(gi / 2) }, "memory", true, true},
		"well":                       {nil, "memory", true, false},
		"the signal is not known":    {func(n *node) { n.unknownFor(time.Hour) }, "memory", false, false},
		"a resource of no threshold": {func(n *node) { n.set(gi / 2) }, "pids", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				if c.set != nil {
					c.set(n)
				}
				s := settings(t, hard("1Gi"))
				s.DryRun = true
				n.run(s, rundir.State{})
				n.after(100 * time.Millisecond)
				if known, is := n.loop.Snapshot().Short(c.resource); known != c.known || is != c.is {
					t.Errorf("known %v, short %v, want %v, %v", known, is, c.known, c.is)
				}
			})
		})
	}
}
