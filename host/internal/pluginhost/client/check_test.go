package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// A ranking's strings are cut from one message. What is kept of it for the history
// must be small, and must not keep the message.
func TestARankingDoesNotKeepTheMessageThatItCameIn(t *testing.T) {
	message := "abidlex" + strings.Repeat("é", maxReasonBytes)
	ranked := []eviction.Ranked{{UID: message[:1], Reason: message[2:6]}, {UID: message[1:2], Reason: message[6:]}, {UID: "c"}}
	uids := []string{"c", "b", "a"}
	if err := checkRanking(len(uids), func(i int) string { return uids[i] }, ranked); err != nil {
		t.Fatal(err)
	}
	if ranked[0].UID != "a" || ranked[0].Reason != "idle" || ranked[2] != (eviction.Ranked{UID: "c"}) {
		t.Errorf("ranking %.100v, want what is short as it was", ranked)
	}
	if r := ranked[1].Reason; len(r) != maxReasonBytes-1 || !utf8.ValidString(r) {
		t.Errorf("a reason of %d bytes, valid: %v, want %d whole runes", len(r), utf8.ValidString(r), maxReasonBytes/2)
	}
	begin := uintptr(unsafe.Pointer(unsafe.StringData(message)))
	for _, r := range ranked[:2] {
		for _, s := range []string{r.UID, r.Reason} {
			if at := uintptr(unsafe.Pointer(unsafe.StringData(s))); at >= begin && at < begin+uintptr(len(message)) {
				t.Errorf("%.20q is a piece of the message", s)
			}
		}
	}
}

// What a plugin says is believed only where it can be, and kept only as far as
// somebody reads it.
func TestObservationsAreBelievedWhereTheyCanBe(t *testing.T) {
	const signal = eviction.MemoryAvailable
	asked := []eviction.Signal{signal, eviction.PIDAvailable}
	one := func(change func(*eviction.Observation)) []eviction.Observation {
		o := eviction.Observation{Signal: signal, State: eviction.Observed, Available: 5, Capacity: 10}
		change(&o)
		return []eviction.Observation{o}
	}
	for name, c := range map[string]struct {
		says  []eviction.Observation
		wrong string
		state eviction.ObservationState
	}{
		"figures":                      {one(func(*eviction.Observation) {}), "", eviction.Observed},
		"all is available":             {one(func(o *eviction.Observation) { o.Available = 10 }), "", eviction.Observed},
		"more than all is available":   {one(func(o *eviction.Observation) { o.Available = 11 }), "available 11, want at most the capacity, 10", eviction.Unknown},
		"less than nothing":            {one(func(o *eviction.Observation) { o.Available = -1 << 62 }), "", eviction.Observed},
		"a capacity below zero":        {one(func(o *eviction.Observation) { o.Capacity, o.Available = -1, -2 }), "capacity -1", eviction.Unknown},
		"no such state":                {one(func(o *eviction.Observation) { o.State = 9 }), "state 9", eviction.Unknown},
		"absent, with figures":         {one(func(o *eviction.Observation) { o.State, o.Available = eviction.Absent, 11 }), "", eviction.Absent},
		"the same signal twice":        {append(one(func(*eviction.Observation) {}), one(func(*eviction.Observation) {})...), "twice", eviction.Unknown},
		"a signal that nobody asked":   {append(one(func(*eviction.Observation) {}), eviction.Observation{Signal: "nodefs.available"}), "not asked for", eviction.Observed},
		"a layout that is not its own": {one(func(*eviction.Observation) {}), "does not own", eviction.Observed},
	} {
		t.Run(name, func(t *testing.T) {
			reply := eviction.ObserveReply{Observations: c.says}
			if strings.Contains(c.wrong, "own") {
				reply.Layout = &eviction.LayoutReport{ImageFs: true}
			}
			kept, wrong := checkObservations(asked, false, false, reply)
			if (wrong == nil) != (c.wrong == "") || wrong != nil && !strings.Contains(wrong.Error(), c.wrong) {
				t.Errorf("wrong: %v, want %q", wrong, c.wrong)
			}
			if len(kept.Observations) != 1 || kept.Observations[0].State != c.state || kept.Layout != nil {
				t.Errorf("kept %+v, want one in state %d and no layout", kept, c.state)
			}
		})
	}
}

// What a vendor's custom signal lacks is the worst pressure that there is, and was unknown
// at just that moment: nobody was evicted.
func TestAnOwnSignalBelowZeroIsPressure(t *testing.T) {
	const spare eviction.Signal = "acme.example/nvme.spare"
	for _, available := range []int64{-1, math.MinInt64} {
		kept, wrong := checkObservations([]eviction.Signal{spare}, false, false, eviction.ObserveReply{Observations: []eviction.Observation{
			{Signal: spare, State: eviction.Observed, Available: available, Capacity: 10},
		}})
		if o := kept.Observations[0]; wrong != nil || o.State != eviction.Observed || o.Available != available {
			t.Errorf("%d available: kept %+v (%v), want it believed", available, o, wrong)
		}
	}
}

// The kubelet's manager acts on a summary in which more is available than there is.
func TestMoreThanThereIsIsBelievedOfTheKubeletsSummary(t *testing.T) {
	for signal, want := range map[eviction.Signal]eviction.ObservationState{
		eviction.NodeFsInodesFree: eviction.Observed,
		"acme.example/nvme.spare": eviction.Unknown,
	} {
		kept, _ := checkObservations([]eviction.Signal{signal}, false, true, eviction.ObserveReply{Observations: []eviction.Observation{
			{Signal: signal, State: eviction.Observed, Available: 11, Capacity: 10},
		}})
		if got := kept.Observations[0].State; got != want {
			t.Errorf("%s: state %d, want %d", signal, got, want)
		}
	}
}

// A boot time decides which figure is newer. One that stays the same under a wall time of
// now had its signal acted on once and never again.
func TestBootTimesThatCannotBe(t *testing.T) {
	now := nodefs.BootNanos()
	for nanos, want := range map[int64]eviction.ObservationState{
		0: eviction.Observed, now: eviction.Observed, now - int64(time.Minute): eviction.Observed,
		now - int64(eviction.MaxSampleAge) - 1: eviction.Unknown,
		now + int64(time.Hour):                 eviction.Unknown,
		1 << 62:                                eviction.Unknown, -1: eviction.Unknown, math.MinInt64: eviction.Unknown,
	} {
		kept, _ := checkObservations([]eviction.Signal{eviction.MemoryAvailable}, false, false, eviction.ObserveReply{Observations: []eviction.Observation{
			{Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: 5, Capacity: 10, Time: time.Now(), BootNanos: nanos},
		}})
		if o := kept.Observations[0]; o.State != want || want == eviction.Unknown && !strings.Contains(o.Err, "boot time") {
			t.Errorf("boot time %d of %d: %+v, want state %d", nanos, now, o, want)
		}
	}
}

func TestTextsAreShortened(t *testing.T) {
	long := strings.Repeat("é", 5000)
	reply := eviction.ObserveReply{
		Observations: []eviction.Observation{
			{Signal: "a", Err: long}, {Signal: "b", Components: []eviction.Component{{Name: long}}},
		},
		Layout: &eviction.LayoutReport{ImageFsErr: long, ContainerFsErr: long},
	}
	kept, _ := checkObservations([]eviction.Signal{"a", "b"}, true, false, reply)
	a, b, l := kept.Observations[0], kept.Observations[1], kept.Layout
	for name, text := range map[string]string{"error": a.Err, "component": b.Components[0].Name, "layout": l.ImageFsErr, "writable layers": l.ContainerFsErr} {
		if len(text) > maxNameBytes || !utf8.ValidString(text) {
			t.Errorf("%s: %d bytes kept, want at most %d", name, len(text), maxNameBytes)
		}
	}
	if got := checkReclaimed(eviction.Reclaimed{Bytes: 1 << 62, Inodes: -1, Message: long}); got.Bytes != 1<<62 || got.Inodes != 0 || len(got.Message) > maxReasonBytes {
		t.Errorf("freed %d, %d, %d bytes of text", got.Bytes, got.Inodes, len(got.Message))
	}
	m := eviction.Measurement{UID: "a", Err: long}
	if err := checkMeasurement(&m); err != nil || len(m.Err) > maxReasonBytes {
		t.Errorf("%v, %d bytes of text", err, len(m.Err))
	}
}

// A chatterbox sends so many messages in a second, for three seconds.
type chatterbox struct{ perSecond int }

func (c chatterbox) say(ctx context.Context, message func()) error {
	for n := range 3 * c.perSecond {
		if n > 0 && n%c.perSecond == 0 {
			time.Sleep(time.Second)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		message()
	}
	return nil
}

func (c chatterbox) Watch(ctx context.Context, _ eviction.WatchRequest, wake func(eviction.Wake)) error {
	return c.say(ctx, func() { wake(eviction.Wake{Signal: eviction.MemoryAvailable}) })
}

func (c chatterbox) Reclaim(ctx context.Context, _ eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	return eviction.Reclaimed{}, c.say(ctx, func() { progress(eviction.Reclaimed{}) })
}

func TestAFloodIsTooManyInOneSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(perSecond int, ask func(c *Client) error) error {
			c := New(Config{Name: "chatty", Timeouts: Timeouts{}.WithDefaults(), Report: func(Report) {}})
			c.remote = eviction.Plugin{Watcher: chatterbox{perSecond}, Reclaimer: chatterbox{perSecond}}
			return ask(c)
		}
		received := 0
		watch := func(c *Client) error {
			received = 0
			return c.Watch(t.Context(), eviction.WatchRequest{Thresholds: []eviction.WatchThreshold{{Signal: eviction.MemoryAvailable}}}, func(eviction.Wake) { received++ })
		}
		reclaim := func(c *Client) error {
			received = 0
			_, err := c.Reclaim(t.Context(), eviction.ReclaimRequest{}, func(eviction.Reclaimed) { received++ })
			return err
		}
		for most, call := range map[int]func(*Client) error{mostWakes: watch, mostProgress: reclaim} {
			if err := ask(most, call); err != nil || received != 3*most {
				t.Errorf("%d a second: heard %d, %v, want all", most, received, err)
			}
			err := ask(most+1, call)
			if !errors.Is(err, eviction.ErrInvalidReply) || !strings.Contains(err.Error(), fmt.Sprintf("more than %d ", most)) || received != most {
				t.Errorf("%d a second: heard %d, %v, want the call ended", most+1, received, err)
			}
		}
	})
}

func TestCheckReplies(t *testing.T) {
	asked := []eviction.Signal{eviction.MemoryAvailable}
	r, err := checkObservations(asked, false, false, eviction.ObserveReply{
		Observations: []eviction.Observation{{Signal: eviction.MemoryAvailable, State: eviction.Observed, Capacity: -1}},
		Layout:       &eviction.LayoutReport{},
	})
	for _, part := range []string{"capacity -1", "layout from a plugin that does not own it"} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("got %v, want %q in it", err, part)
		}
	}
	if r.Layout != nil || r.Observations[0].State != eviction.Unknown || r.Observations[0].Err == "" {
		t.Errorf("got %+v, want no layout and an unknown observation with a reason", r)
	}
	m := eviction.Measurement{UID: "a", State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: eviction.MemoryAvailable, Value: -1}}}
	if err := checkMeasurement(&m); !errors.Is(err, eviction.ErrInvalidReply) || m.State != eviction.MeasurementUnknown || m.UID != "a" {
		t.Errorf("got %+v, %v, want an unknown measurement", m, err)
	}
}
