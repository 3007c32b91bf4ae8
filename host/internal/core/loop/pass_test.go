package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

func TestUnknownActsOnNothingAndIsLookedAtAgainSoon(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.start(settings(t, hard("1Gi")))
		n.memory.answers(func() (eviction.ObserveReply, error) {
			n.did.note("failed look")
			return failing()
		})
		n.after(8*time.Second + 750*time.Millisecond)
		if got := n.did.count("failed look"); got != 4 {
			t.Errorf("%d looks within 750 ms of the first failed one, want 4 (0, 100, 300, 700 ms)", got)
		}
		n.memory.set(gi / 2)
		n.memory.answers(nil)
		n.after(time.Second)
		if got := n.did.count("kill big"); got != 1 {
			t.Errorf("%d kills once the figure was back, want 1", got)
		}
	})
}

// A runtime that does not answer must not keep memory from being looked after.
func TestAnUnknownLayoutLeavesTheDisksUntilItIsKnown(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.available, d.layout = gi, &eviction.LayoutReport{ImageFsErr: "no such device"}
		s := diskSettings(t, hardDisk("10Gi"))
		s.MemoryNotifications = false
		n.run(s)
		n.after(9 * time.Second)
		n.wantStory() // nothing without knowing the layout
		n.memory.set(gi / 2)
		n.after(10 * time.Second)
		if n.loop.Under(eviction.DiskPressure) || n.did.count("kill big") != 1 {
			t.Errorf("story %q, want big killed for memory", n.did.story())
		}
		d.layout = &eviction.LayoutReport{}
		n.after(10 * time.Second)
		if !n.loop.Under(eviction.DiskPressure) || n.loop.Snapshot().Layout != "shared" {
			t.Errorf("no pressure in layout %q, want it as soon as the layout is known", n.loop.Snapshot().Layout)
		}
	})
}

// The kubelet's manager does, and with layout: kubelet so does evictd. A pass that concludes
// nothing must not keep the host looking well.
func TestAskedOnceAnUnknownLayoutEndsThePass(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.addDisk().layout = &eviction.LayoutReport{ImageFsErr: "no such device"}
		n.memory.available = gi / 2
		s := diskSettings(t, hardDisk("10Gi"))
		s.LayoutOnce, s.MemoryNotifications = true, false
		n.run(s)
		n.after(time.Minute)
		o, err := n.loop.Synchronize(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no such device") || len(o.Evicted) > 0 {
			t.Errorf("outcome %+v, %v; want the error and nothing else", o, err)
		}
		n.wantStory()
		if got := n.loop.Snapshot().Time; !got.IsZero() {
			t.Errorf("a pass has concluded something at %v, want none", got)
		}
	})
}

func TestALayoutThatChangesBringsItsOwnThresholds(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		n.run(diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10Gi", "imagefs.available": "20Gi"}}))
		n.after(time.Second)
		shared := n.thresholdOf(eviction.ContainerFsAvailable).Value
		d.layout = &eviction.LayoutReport{ImageFs: true}
		n.after(10 * time.Second)
		if split := n.thresholdOf(eviction.ContainerFsAvailable).Value; shared != "10Gi" || split != "20Gi" {
			t.Errorf("containerfs.available<%s, with images on their own filesystem <%s, want 10Gi and 20Gi", shared, split)
		}
	})
}

// What the configuration could not know: it is reported when the layout is, with both names.
func TestASplitFilesystemIsReportedWhenTheLayoutIsKnown(t *testing.T) {
	for name, reported := range map[string]bool{"shared": true, "imagefs": false} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.addDisk().layout = layoutReports[name]
				s := diskSettings(t, kubeletDisks())
				s.Assigned = func(s eviction.Signal, _ eviction.Capability) string {
					return map[eviction.Signal]string{eviction.NodeFsAvailable: "disk", eviction.ImageFsAvailable: "acme-images"}[s]
				}
				n.run(s)
				n.after(15 * time.Second)
				log, shown := n.log.String(), strings.Join(n.loop.Snapshot().AssignProblems, "\n")
				if got := strings.Count(log, "assignments split a filesystem"); got != map[bool]int{true: 1}[reported] || (shown != "") != reported {
					t.Errorf("reported %d times, the status has %q: %s", got, shown, log)
				}
				for _, plugin := range []string{"disk", "acme-images"} {
					if reported && (!strings.Contains(log, `\"`+plugin+`\"`) || !strings.Contains(shown, `"`+plugin+`"`)) {
						t.Errorf("%s is not named in the status, %q, or the log: %s", plugin, shown, log)
					}
				}
				s.Assigned = nil
				n.apply(s)
				n.after(15 * time.Second)
				if shown := n.loop.Snapshot().AssignProblems; shown != nil {
					t.Errorf("the status has %q, want nothing any more", shown)
				}
			})
		})
	}
}

// The layout was of whoever answered last, and one late answer of its owner, or a signal for
// which another one was asked, changed it.
func TestTheLayoutIsThatOfItsOwner(t *testing.T) {
	nodefs, imagefs := eviction.NodeFsAvailable, eviction.ImageFsAvailable
	for name, c := range map[string]struct {
		acme, disk []eviction.Signal // that each offers
		unknown    eviction.Signal   // to acme
		late       bool              // once acme has answered
	}{
		"the other answers last":          {acme: []eviction.Signal{nodefs}, disk: []eviction.Signal{imagefs}},
		"it is late once":                 {acme: []eviction.Signal{nodefs}, disk: []eviction.Signal{nodefs}, late: true},
		"the other is asked for a signal": {acme: []eviction.Signal{nodefs, imagefs}, disk: []eviction.Signal{nodefs, imagefs}, unknown: imagefs},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				late := false
				add := func(name string, signals []eviction.Signal, report func(s eviction.Signal) eviction.Observation) {
					p := &eviction.Plugin{Name: name, OwnsLayout: true, Observer: observer(func(_ context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
						out := eviction.ObserveReply{Layout: &eviction.LayoutReport{ImageFs: name == "acme"}}
						if name == "acme" && late {
							return out, context.DeadlineExceeded
						}
						if name == "disk" {
							time.Sleep(time.Millisecond)
						}
						for _, s := range r.Signals {
							out.Observations = append(out.Observations, report(s))
						}
						return out, nil
					})}
					for _, s := range signals {
						p.Signals = append(p.Signals, eviction.SignalSpec{Signal: s})
					}
					n.plugins.add(p)
				}
				well := func(s eviction.Signal) eviction.Observation {
					return eviction.Observation{Signal: s, State: eviction.Observed, Available: 4 * gi, Capacity: 8 * gi, Time: time.Now()}
				}
				add("acme", c.acme, func(s eviction.Signal) eviction.Observation {
					if s == c.unknown {
						return eviction.Observation{Signal: s, Err: "not now"}
					}
					return well(s)
				})
				add("disk", c.disk, well)
				n.run(settings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "1Gi", "imagefs.available": "2Gi"}}))
				n.after(time.Second)
				late = c.late
				n.after(10 * time.Second)
				if got := n.loop.Snapshot().Layout; got != "imagefs" {
					t.Errorf("layout %q, want that of acme, who is in charge", got)
				}
			})
		})
	}
}

// What the vendor sees of the images' filesystem holds for writable layers on it: it
// would else be acted on by another's figure.
func TestWritableLayersAreSeenByWhoSeesTheirFilesystem(t *testing.T) {
	for layout, by := range map[string]string{"imagefs": "acme-images", "shared": "disk", "containerfs": "disk"} {
		t.Run(layout, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.layout = layoutReports[layout]
				d.addArray(eviction.ImageFsAvailable)
				n.run(diskSettings(t, kubeletDisks()))
				n.after(15 * time.Second)
				seen := map[eviction.Signal]string{}
				for _, s := range n.loop.Snapshot().Signals {
					seen[s.Signal] = s.ObservedBy
				}
				if seen[eviction.ImageFsAvailable] != "acme-images" || seen[eviction.NodeFsAvailable] != "disk" || seen[eviction.ContainerFsAvailable] != by {
					t.Errorf("seen by %v, want writable layers seen by %s", seen, by)
				}
			})
		})
	}
}

// When the vendor is silent the next in line sees the same filesystem under its own name.
func TestTheNextInLineSeesTheFilesystemWhenTheVendorDoesNot(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.layout, d.volumes["uid-big"] = &eviction.LayoutReport{ImageFs: true}, 10*gi
		silent := &memory{mu: &n.mu, did: n.did, observe: refusing, measure: errBroken}
		v := d.addArray(eviction.ImageFsAvailable)
		v.plugin.Observer, v.plugin.Measurer = silent, silent
		n.start(diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"imagefs.available": "15%"}}))
		d.set(5 * gi)
		n.after(9 * time.Second)
		if n.did.count("kill big") != 1 {
			t.Errorf("%q, want the eviction to go on without the vendor's figures", n.did.story())
		}
	})
}

// Without the built-in plugin the thresholds for writable layers are the vendor's all the same.
func TestWritableLayersNeedNoObserverOfTheirOwn(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.layout = &eviction.LayoutReport{ImageFs: true}
		d.addArray(eviction.ImageFsAvailable)
		builtin := n.plugins.builtin[1].Plugin
		builtin.Signals = slices.DeleteFunc(builtin.Signals, func(s eviction.SignalSpec) bool { return s.Signal != eviction.NodeFsAvailable })
		n.run(diskSettings(t, kubeletDisks()))
		n.after(15 * time.Second)
		if n.unobserved() {
			t.Errorf("%+v, want the vendor's figure to count", n.loop.Snapshot().Thresholds)
		}
	})
}

func TestWhenTheLastObserverFailsForASecondTheHostReadsByItself(t *testing.T) {
	silent := func() (eviction.ObserveReply, error) { return eviction.ObserveReply{}, nil }
	for name, c := range map[string]struct {
		breaks func(*node)
		config policy.ThresholdConfig
		stands bool
		evicts bool
	}{
		"it cannot be reached":   {func(n *node) { n.memory.answers(failing) }, hard("1Gi"), false, true},
		"it answers nothing":     {func(n *node) { n.memory.answers(silent) }, hard("1Gi"), false, true},
		"it refuses":             {func(n *node) { n.memory.answers(refusing) }, hard("1Gi"), false, true},
		"its source says no":     {func(n *node) { n.memory.answers(refusing) }, hard("1Gi"), true, false},
		"it is down":             {func(n *node) { n.plugins.leave(errors.New("plugin memory does not run (quarantined)")) }, hard("1Gi"), false, true},
		"it was removed":         {func(n *node) { n.plugins.leave(nil) }, hard("1Gi"), false, false},
		"only a soft threshold":  {func(n *node) { n.memory.answers(failing) }, soft("1Gi", "1s"), false, false},
		"it is down for a while": {func(n *node) { n.plugins.leave(errBroken) }, hard("1Gi"), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.readByHand(c.stands)
				n.start(settings(t, c.config))
				if got := n.signal(); got.ObservedBy != "memory" || n.unobserved() {
					t.Errorf("before: %+v, want it observed by memory", got)
				}
				c.breaks(n)
				n.memory.falls(gi / 2)
				synctest.Wait()
				n.plugins.changes()
				if got := n.signal(); got.State != decision.StateUnknown || got.Err == "" || got.ObservedBy != "" || !n.unobserved() && len(n.loop.Snapshot().Thresholds) > 0 {
					t.Errorf("after the first pass without it: %+v, want it shown as not observed", got)
				}
				n.after(1100 * time.Millisecond)
				want := 0
				if c.evicts {
					want = 1
				}
				if got := n.did.count("1s kill big"); got != want {
					t.Errorf("%d kills of big after 1 s, want %d: %v", got, want, n.did.story())
				}
				if got := n.signal(); c.evicts && (got.State != decision.StateObserved || got.ObservedBy != "evictd" || n.unobserved()) {
					t.Errorf("%+v, want it observed by evictd", got)
				}
			})
		})
	}
}

func TestTheHostReadsUntilThePluginIsBack(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		b := n.readByHand(true)
		n.memory.answers(failing)
		b.err = "no /proc"
		n.run(settings(t, hard("1Gi")))
		n.after(3 * time.Second)
		if got := n.signal(); got.State != decision.StateUnknown || !strings.Contains(got.Err, "no /proc") || !strings.Contains(got.Err, eviction.ErrUnavailable.Error()) || !n.unobserved() {
			t.Errorf("%+v, want it not observed, with both reasons", got)
		}
		b.err = ""
		n.settle()
		n.after(25 * time.Second)
		if got := n.signal(); got.ObservedBy != "evictd" || got.Available != 4*gi {
			t.Errorf("%+v, want the host's figure", got)
		}
		// Nobody watches the signal either.
		if got := n.did.count("by hand"); got < 24 || got > 26 {
			t.Errorf("read by hand %d times in 25 s, want once a second", got)
		}
		n.memory.answers(nil)
		n.plugins.changes()
		if got := n.signal(); got.ObservedBy != "memory" {
			t.Errorf("%+v, want the plugin's figure", got)
		}
		// The host went on looking each second when it answered with an error of its source.
		n.memory.answers(failing)
		n.after(15 * time.Second)
		n.memory.answers(refusing)
		n.after(10 * time.Minute)
		passes := n.loop.Snapshot().Passes
		n.after(100 * time.Second)
		if got := n.loop.Snapshot().Passes - passes; got > 20 || strings.Count(n.log.String(), "host no longer reads the signal") != 2 {
			t.Errorf("%d passes in 100 s, want one each 10 s and the host to have ceased twice", got)
		}
	})
}

// A wrong clock, or a lie, must neither be acted on for ever nor stop what is to be
// acted on.
func TestTimesThatCannotBe(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		at := func(d time.Duration) func() (eviction.ObserveReply, error) {
			return func() (eviction.ObserveReply, error) { return figure(n.memory.available, 8*gi, time.Now().Add(d)) }
		}
		n.options.CheckSampleTimes = true
		n.memory.answers(at(24 * time.Hour))
		n.start(settings(t, hard("1Gi")))
		n.memory.answers(nil) // the next figure is honest, and a day older
		n.memory.falls(gi / 2)
		n.after(time.Second)
		if n.did.count("kill big") != 1 {
			t.Errorf("a figure from the future has stopped the evictions: %v", n.did.story())
		}
		n.memory.answers(at(-time.Hour))
		n.after(10 * time.Second)
		if got := n.signal(); got.State != decision.StateUnknown || !strings.Contains(got.Err, "1h0m0s old") {
			t.Errorf("%+v, want a figure of an hour ago to be unknown", got)
		}
	})
}

// A figure that does not change and has a time ahead of the clock was acted on in each
// pass.
func TestOneFigureFromTheFutureEvictsOnceAtMost(t *testing.T) {
	for name, checked := range map[string]bool{"as kubelet": false, "checked": true} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.options.CheckSampleTimes = checked
				sampled := time.Now().Add(time.Hour)
				n.memory.answers(func() (eviction.ObserveReply, error) { return figure(gi/2, 8*gi, sampled) })
				n.run(settings(t, hard("1Gi")))
				n.after(time.Minute)
				if got := n.did.kills(); len(got) > 1 {
					t.Errorf("%q for one and the same sample", got)
				}
			})
		})
	}
}

func saysAvailable(available, capacity int64) observer {
	return func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
		return figure(available, capacity, time.Now())
	}
}

// liars returns custom observers of a node that has 512Mi of 8Gi left.
func liars(n *node) map[string]observer {
	says := func(o eviction.Observation) observer {
		o.Signal = eviction.MemoryAvailable
		return func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
			return eviction.ObserveReply{Observations: []eviction.Observation{o}}, nil
		}
	}
	began := time.Now()
	return map[string]observer{
		"plenty":                   saysAvailable(6*gi, 8*gi),
		"absent":                   says(eviction.Observation{State: eviction.Absent}),
		"unknown":                  says(eviction.Observation{State: eviction.Unknown, Err: "do not know"}),
		"an error":                 func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) { return refusing() },
		"nothing":                  func(context.Context, eviction.ObserveRequest) (r eviction.ObserveReply, err error) { return r, err },
		"yesterday's figure":       saysAvailable(4*gi, 8*gi),
		"the least, of too little": saysAvailable(gi/2-mi, gi/2),
		"one sample for ever": func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			return figure(n.memory.available-mi, 8*gi, began)
		},
		"a time that is ahead": func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
			return figure(6*gi, 8*gi, time.Now().Add(time.Second))
		},
	}
}

// A custom observer whose word was taken kept the node from evicting for as long as it
// liked, while the built-in plugin beside it was not asked.
func TestAPlausibleLieDoesNotKeepTheHog(t *testing.T) {
	for beside, breaks := range map[string]func(n *node){
		"the built-in plugin":            func(*node) {},
		"the built-in plugin down":       func(n *node) { n.plugins.leave(errBroken) },
		"the built-in plugin removed":    func(n *node) { n.plugins.leave(nil) },
		"the built-in plugin that fails": func(n *node) { n.memory.answers(failing) },
	} {
		for lie := range liars(nil) {
			t.Run(lie+" beside "+beside, func(t *testing.T) {
				story(t, func(t *testing.T, n *node) {
					n.readByHand(false)
					n.options.CheckSampleTimes = true
					n.plugins.addObserver(liars(n)[lie])
					s := settings(t, hard("10%"))
					n.start(s)
					n.memory.available = gi / 2
					breaks(n)
					n.plugins.changes()
					n.after(s.MonitoringInterval + time.Second)
					if got := n.did.count("kill big"); got != 1 {
						t.Errorf("%d kills of big, want 1: %q", got, n.did.story())
					}
				})
			})
		}
	}
}

// What a custom observer knows beyond the kernel counts as it did, and so does all that
// it says where the configuration names it. With figures of the kubelet's summary the built-in
// plugin says what the summary says; the host knows nothing beside it.
func TestACustomObserverAddsPressureAndMayBeTrusted(t *testing.T) {
	for name, c := range map[string]struct {
		available, says         int64
		assigned, summary, down bool
		evicts                  bool
	}{
		"pressure that the kernel does not tell": {available: 4 * gi, says: gi / 2, evicts: true},
		"the same, assigned":                     {available: 4 * gi, says: gi / 2, assigned: true, evicts: true},
		"plenty":                                 {available: gi / 2, says: 6 * gi, evicts: true},
		"plenty, assigned":                       {available: gi / 2, says: 6 * gi, assigned: true},
		"plenty, and there is":                   {available: 4 * gi, says: 6 * gi},
		"plenty, with a summary":                 {available: gi / 2, says: 6 * gi, summary: true, evicts: true},
		"plenty, with a summary that is down":    {available: gi / 2, says: 6 * gi, summary: true, down: true},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.readByHand(c.summary)
				n.plugins.addObserver(saysAvailable(c.says, 8*gi))
				if c.assigned {
					n.plugins.assigned = eviction.MemoryAvailable
				}
				if c.down {
					n.plugins.leave(errBroken)
				}
				n.memory.available = c.available
				n.run(settings(t, hard("1Gi")))
				n.after(time.Minute)
				if got := n.did.count("kill big") > 0; got != c.evicts {
					t.Errorf("evicted: %v, want %v: %q", got, c.evicts, n.did.story())
				}
				if asked := n.did.count(" observe") > 0; asked != (!c.assigned && !c.down) {
					t.Errorf("the built-in plugin was asked: %v", asked)
				}
				if n.did.count("by hand") > 0 {
					t.Error("the host has looked although the built-in plugin answers")
				}
			})
		})
	}
}

// Nobody else is asked where there is no custom observer. One that fails is not asked again in
// the same pass, nor is the built-in one: one call of each.
func TestBothAreAskedOnceAPass(t *testing.T) {
	for name, custom := range map[string]int{"without a custom observer": 0, "with one that fails": 6} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.readByHand(custom > 0)
				n.plugins.addRanker("oldest", nil)
				calls := 0
				if custom > 0 {
					n.plugins.addObserver(func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
						calls++
						return refusing()
					})
				}
				n.run(settings(t, hard("1Gi")))
				calls = 0
				n.settle()
				n.after(time.Minute - 2*time.Second)
				if builtin := n.did.count(" observe"); builtin != 5 && builtin != 6 || custom > 0 && calls != builtin || n.did.count("by hand") > 0 {
					t.Errorf("the built-in plugin was asked %d times, the custom one %d times, the host %d times", builtin, calls, n.did.count("by hand"))
				}
			})
		})
	}
}

func TestALastingContradictionIsReported(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		available := 4*gi - 20*mi // of another moment
		n.plugins.addObserver(func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
			return figure(available, 8*gi, time.Now())
		})
		n.run(settings(t, hard("1Gi")))
		check := func(when string, lasting bool, logged, ended int) {
			t.Helper()
			status, metric, log := n.signal(), n.metric("evictd_signal_contradicted{"), n.log.String()
			if (status.Contradiction != nil) != lasting || strings.HasSuffix(metric, "} 1") != lasting ||
				strings.Count(log, "observers contradict each other") != logged || strings.Count(log, "observers agree again") != ended {
				t.Errorf("%s: %+v, %q, want lasting %v, logged %d times, ended %d times", when, status, metric, lasting, logged, ended)
			}
		}
		n.after(10 * time.Minute)
		check("figures of other moments", false, 0, 0)
		available = 7 * gi
		n.after(20 * time.Second)
		check("for a moment", false, 0, 0)
		n.after(time.Hour)
		check("for good", true, 1, 0)
		if c := n.signal().Contradiction; c != nil && (len(c.Figures) != 2 || c.Figures[0].ObservedBy != "acme" || c.Figures[0].Available != 7*gi || c.Figures[1].ObservedBy != "memory" || c.Figures[1].Available != 4*gi) {
			t.Errorf("%+v, want both figures", c)
		}
		if got := n.signal(); got.ObservedBy != "memory" || got.Available != 4*gi {
			t.Errorf("%+v, want memory's figure to count", got)
		}
		available = 4 * gi
		n.after(time.Hour)
		check("agreed", false, 1, 1)
		available = 7 * gi
		n.after(time.Hour)
		check("again", true, 2, 1)
		n.plugins.custom = nil
		n.plugins.changes()
		check("gone", false, 2, 1)
	})
}

// A kill that a former host decided on was finished whatever had become of the node,
// the pod and the configuration.
func TestAKillOfAFormerHostIsJudgedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		ago   time.Duration
		takes time.Duration // until it is judged, 10 s if 0
		short bool
		set   func(n *node, s *Settings)
		kills int
		says  string
	}{
		"it was decided on just now":               {ago: time.Second, kills: 1, says: "finishing a kill"},
		"just now, no other goes while it ends":    {short: true, set: func(n *node, _ *Settings) { n.runtime.dies["uid-big"] = 800 * time.Millisecond }, kills: 1, says: "finishing a kill"},
		"long ago, and the node is short":          {ago: 25 * time.Minute, short: true, kills: 1, says: "finishing a kill"},
		"long ago, and the node is well":           {ago: 25 * time.Minute, says: "long ago and the node is not short"},
		"long ago, and the signal is unknown yet":  {ago: 25 * time.Minute, short: true, set: func(n *node, _ *Settings) { n.memory.unknownFor(3 * time.Second) }, kills: 1, says: "finishing a kill"},
		"long ago, and the threshold is gone":      {ago: 25 * time.Minute, set: func(_ *node, s *Settings) { s.Thresholds = nil }, says: "long ago and the node is not short"},
		"this host only pretends":                  {ago: time.Second, short: true, set: func(_ *node, s *Settings) { s.DryRun = true }, says: "this is a dry run"},
		"the pod has become critical":              {ago: time.Second, set: func(n *node, _ *Settings) { n.runtime.pods[1].API.Spec.Priority = new(int32(2_000_000_000)) }, says: "may not be evicted any more"},
		"its manifest is gone":                     {ago: time.Second, set: func(n *node, _ *Settings) { n.runtime.pods[1].HasManifest = false }, takes: time.Minute, says: "nothing says what the pod is"},
		"its manifest cannot be read at the start": {ago: time.Second, set: func(n *node, _ *Settings) { n.runtime.withoutManifestFor(1, 3*time.Second) }, kills: 1, says: "finishing a kill"},
		"the pod is gone, another has its name": {ago: time.Second, set: func(n *node, _ *Settings) {
			n.runtime.pods[1].Row.UID, n.runtime.running = "uid-new", map[string]bool{"uid-new": true}
		}, says: "pod finished"},
		"the runtime does not answer at the start": {ago: time.Second, set: func(n *node, _ *Settings) { n.runtime.unlistedFor(3 * time.Second) }, kills: 1, says: "not judged yet"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				if c.short {
					n.memory.available = gi / 2
				}
				s := settings(t, hard("1Gi"))
				if c.set != nil {
					c.set(n, &s)
				}
				n.decidedBefore(victim.Kill{Name: "big", Signal: eviction.MemoryAvailable}, c.ago)
				n.run(s)
				n.after(10*time.Second + c.takes)
				if got := n.did.count("kill "); got != c.kills || n.did.count("kill big") != c.kills {
					t.Errorf("%q, want %d kills, of big", n.did.story(), c.kills)
				}
				if !strings.Contains(n.log.String(), c.says) {
					t.Errorf("the log does not say %q", c.says)
				}
				if len(n.journal.kills) != 0 {
					t.Errorf("journal has %v, want nothing", n.journal.kills)
				}
			})
		})
	}
}

// While the kill of a former host was not judged, as there was no list of pods, another pod
// could be chosen beside it.
func TestNoPodIsEvictedBeforeTheKillsOfAFormerHostAreJudged(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.available, d.takes, d.late = 5*gi, 100*time.Millisecond, time.Second
		d.volumes["uid-big"], d.volumes["uid-small"] = 20*gi, 10*gi
		n.runtime.unlistedFor(150 * time.Millisecond)
		n.decidedBefore(victim.Kill{Name: "small", Signal: eviction.NodeFsAvailable}, 0)
		n.run(diskSettings(t, hardDisk("10Gi")))
		n.after(30 * time.Second)
		if got := n.did.kills(); len(got) != 1 || !strings.Contains(got[0], "kill small") {
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
				if c.over {
					d.available = 50 * gi
					d.limit("small", 1*gi, 10*gi)
				}
				n.runtime.withoutManifestFor(1, c.unread)
				n.decidedBefore(victim.Kill{Name: "big", Signal: eviction.NodeFsAvailable}, 0)
				n.run(diskSettings(t, hardDisk("10Gi")))
				n.after(2 * time.Minute)
				if got := slices.Sorted(slices.Values(n.did.kills())); !slices.Equal(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}

// Of 22 crossings in a dry run 11 had no decision: each came within half a minute of a decision about another pod.
func TestACrossingInADryRunHasNoDecision(t *testing.T) {
	for name, c := range map[string]struct {
		then func(n *node, d *disk) // after the first decision, for memory and about big
		want []string
	}{
		"the pressure goes on": {func(n *node, _ *disk) { n.after(20 * time.Second) }, []string{"big"}},
		"it goes on for long":  {func(n *node, _ *disk) { n.after(41 * time.Second) }, []string{"big", "big"}},
		"a later pressure, of another pod": {func(n *node, _ *disk) {
			n.memory.set(4 * gi)
			n.after(10 * time.Second)
			n.mu.Lock()
			n.memory.usage["uid-small"] = 3 * gi
			n.mu.Unlock()
			n.memory.falls(gi / 2)
			n.after(time.Second)
		}, []string{"big", "small"}},
		"a later pressure, of the same pod": {func(n *node, _ *disk) {
			n.memory.set(4 * gi)
			n.after(10 * time.Second)
			n.memory.falls(gi / 2)
			n.after(time.Second)
		}, []string{"big", "big"}},
		"another pressure, of the same pod": {func(n *node, d *disk) {
			d.set(gi)
			n.after(15 * time.Second)
		}, []string{"big", "big"}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.volumes["uid-big"] = gi
				s := settings(t, hardDisk("10Gi"))
				s.DryRun = true
				n.start(s)
				n.memory.falls(gi / 2)
				n.after(time.Second)
				c.then(n, d)
				var got []string
				for _, e := range n.loop.Snapshot().Evictions {
					got = append(got, strings.TrimPrefix(e.Pod, "default/"))
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("decisions (-want +got):\n%s", diff)
				}
			})
		})
	}
}
