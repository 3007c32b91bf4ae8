package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
)

func sizeOf(t *testing.T, c measurementChunk) int {
	t.Helper()
	var list measurements
	if err := list.decode(string(c)); err != nil {
		t.Fatal(err)
	}
	return len(list.list)
}

func TestMeasureSendsInChunks(t *testing.T) {
	var sizes []int
	b := newBatch(t.Context(), func(c measurementChunk) error {
		sizes = append(sizes, sizeOf(t, c))
		return nil
	})
	for range 250 {
		b.add(eviction.Measurement{})
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	if want := []int{100, 100, 50}; !slices.Equal(sizes, want) {
		t.Errorf("sent chunks of %v, want %v", sizes, want)
	}
}

// Close to the deadline nothing is held back.
func TestMeasureHurriesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var sent []string
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		b := newBatch(ctx, func(c measurementChunk) error {
			sent = append(sent, fmt.Sprintf("%d after %s", sizeOf(t, c), time.Since(begin)))
			return nil
		})
		b.add(eviction.Measurement{})
		<-time.After(4 * time.Second)
		b.add(eviction.Measurement{})
		<-time.After(5500 * time.Millisecond)
		b.add(eviction.Measurement{})
		b.add(eviction.Measurement{})
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
		want := []string{"2 after 9s", "1 after 9.5s", "1 after 9.5s"}
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}

func podsOf(uids ...string) []eviction.Pod {
	var pods []eviction.Pod
	for _, uid := range uids {
		pods = append(pods, eviction.Pod{UID: uid})
	}
	return pods
}

func TestMeasureThatHangsKeepsItsAnswers(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	defer close(leave)
	f := &fake{measure: func(_ context.Context, _ eviction.MeasureRequest, emit func(eviction.Measurement)) error {
		emit(eviction.Measurement{UID: "1", State: eviction.Measured})
		emit(eviction.Measurement{UID: "2", State: eviction.NoStats})
		<-leave // not even the context helps
		return nil
	}}
	p := connect(t, f.plugin())
	var got []string
	err := p.Measurer.Measure(within(t, 2*time.Second), eviction.MeasureRequest{Pods: podsOf("1", "2", "3")}, func(m eviction.Measurement) {
		got = append(got, m.UID)
	})
	wantOnly(t, err, context.DeadlineExceeded)
	if want := []string{"1", "2"}; !slices.Equal(got, want) {
		t.Errorf("got answers for %q, want %q", got, want)
	}
}

func TestMeasureWithAnErrorKeepsItsAnswers(t *testing.T) {
	f := &fake{measure: func(_ context.Context, _ eviction.MeasureRequest, emit func(eviction.Measurement)) error {
		emit(eviction.Measurement{UID: "1"})
		return errors.New("the rest is gone")
	}}
	p := connect(t, f.plugin())
	var got []string
	err := p.Measurer.Measure(within(t, 5*time.Second), eviction.MeasureRequest{Pods: podsOf("1", "2")}, func(m eviction.Measurement) {
		got = append(got, m.UID)
	})
	wantOnly(t, err, eviction.ErrRefused)
	if want := []string{"1"}; !slices.Equal(got, want) {
		t.Errorf("got answers for %q, want %q", got, want)
	}
}

func TestMeasureDropsWhatWasNotAsked(t *testing.T) {
	f := &fake{measure: func(_ context.Context, _ eviction.MeasureRequest, emit func(eviction.Measurement)) error {
		for _, uid := range []string{"1", "stranger", "2", "1"} {
			emit(eviction.Measurement{UID: uid})
		}
		return nil
	}}
	p := connect(t, f.plugin())
	var got []string
	err := p.Measurer.Measure(within(t, 5*time.Second), eviction.MeasureRequest{Pods: podsOf("1", "2")}, func(m eviction.Measurement) {
		got = append(got, m.UID)
	})
	wantOnly(t, err, eviction.ErrInvalidReply)
	if want := []string{"1", "2"}; !slices.Equal(got, want) {
		t.Errorf("got answers for %q, want %q", got, want)
	}
}

// Emit may be called from many goroutines, with memory that is used again at
// once, and carelessly after the end.
func TestEmitIsSafe(t *testing.T) {
	const goroutines, each = 8, 60
	var uids []string
	for i := range goroutines * each {
		uids = append(uids, fmt.Sprint(i))
	}
	late := make(chan func(eviction.Measurement), 1)
	f := &fake{measure: func(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
		var all sync.WaitGroup
		for part := range slices.Chunk(r.Pods, each) {
			all.Go(func() {
				containers := make([]eviction.ContainerMeasurement, 1)
				volumes := make([]eviction.VolumeMeasurement, 1)
				usage := make([]eviction.SignalUsage, 1)
				for i := range part {
					uid := part[i].UID
					containers[0] = eviction.ContainerMeasurement{Name: uid, LogsUsedBytes: eviction.Some(int64(len(uid)))}
					volumes[0] = eviction.VolumeMeasurement{Name: uid, UsedBytes: eviction.Some(int64(len(uid)))}
					usage[0] = eviction.SignalUsage{Signal: eviction.Signal(uid), Value: int64(len(uid))}
					emit(eviction.Measurement{UID: uid, Containers: containers, Volumes: volumes, Usage: usage})
				}
			})
		}
		all.Wait()
		late <- emit
		return nil
	}}
	p := connect(t, f.plugin())
	got := map[string]bool{}
	err := p.Measurer.Measure(within(t, 10*time.Second), eviction.MeasureRequest{Pods: podsOf(uids...)}, func(m eviction.Measurement) {
		got[m.UID] = true
		n := int64(len(m.UID))
		want := eviction.Measurement{
			UID:        m.UID,
			Usage:      []eviction.SignalUsage{{Signal: eviction.Signal(m.UID), Value: n}},
			Containers: []eviction.ContainerMeasurement{{Name: m.UID, LogsUsedBytes: eviction.Some(n)}},
			Volumes:    []eviction.VolumeMeasurement{{Name: m.UID, UsedBytes: eviction.Some(n)}},
		}
		if diff := cmp.Diff(want, m); diff != "" {
			t.Errorf("pod %s (-want +got):\n%s", m.UID, diff)
		}
	})
	if err != nil || len(got) != len(uids) {
		t.Errorf("got %d answers and error %v, want %d", len(got), err, len(uids))
	}
	(<-late)(eviction.Measurement{UID: "0"})
}

func TestWatchDeliversWakesUntilTheCallerLeaves(t *testing.T) {
	f := &fake{watch: func(ctx context.Context, r eviction.WatchRequest, wake func(eviction.Wake)) error {
		for {
			wake(eviction.Wake{Signal: r.Thresholds[0].Signal, Cause: "poll"})
			select {
			case <-ctx.Done():
				wake(eviction.Wake{}) // too late, harmless
				return ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
	}}
	p := connect(t, f.plugin())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	req := eviction.WatchRequest{Thresholds: []eviction.WatchThreshold{{Signal: eviction.MemoryAvailable, Threshold: eviction.Threshold{Fraction: 0.1}}}}
	err := p.Watcher.Watch(ctx, req, func(w eviction.Wake) {
		if want := (eviction.Wake{Signal: eviction.MemoryAvailable, Cause: "poll"}); w != want {
			t.Errorf("got wake %+v, want %+v", w, want)
		}
		if n++; n == 3 {
			cancel()
		}
	})
	wantOnly(t, err, context.Canceled)
	if n < 3 {
		t.Errorf("got %d wakes, want 3", n)
	}
}

// With 500 wakes a second of 200 kB each a plugin took 41 % of a core from the host, and nothing was
// held against it.
func TestAWakeOfManyBytesEndsTheWatch(t *testing.T) {
	for size, want := range map[int]error{MaxWakeBytes: nil, MaxWakeBytes + 1: eviction.ErrInvalidReply, 200_000: eviction.ErrInvalidReply} {
		reply := protowire.AppendTag(nil, 15, protowire.BytesType) // a field of a later protocol
		reply = protowire.AppendBytes(reply, make([]byte, size-len(reply)-protowire.SizeVarint(uint64(size))))
		if len(reply) != size {
			t.Fatalf("a message of %d bytes, want %d", len(reply), size)
		}
		wakes := 0
		err := remoteOn(start(t, rawServer(reply, nil))).Watch(within(t, 10*time.Second), eviction.WatchRequest{}, func(eviction.Wake) { wakes++ })
		if !errors.Is(err, want) || (wakes > 0) != (want == nil) {
			t.Errorf("a wake of %d bytes: %d wakes, %v, want %v", size, wakes, err, want)
		}
	}
}

// What a plugin made with the SDK says of a wake never makes it too long.
func TestALongCauseIsCut(t *testing.T) {
	p := connect(t, (&fake{watch: func(_ context.Context, _ eviction.WatchRequest, wake func(eviction.Wake)) error {
		wake(eviction.Wake{Signal: eviction.MemoryAvailable, Cause: strings.Repeat("x", 200_000)})
		return nil
	}}).plugin())
	cause := ""
	if err := p.Watcher.Watch(within(t, 10*time.Second), eviction.WatchRequest{}, func(w eviction.Wake) { cause = w.Cause }); err != nil || len(cause) != maxErrorBytes {
		t.Errorf("a cause of %d bytes, %v, want one of %d", len(cause), err, maxErrorBytes)
	}
}

func TestNewWatchReplacesTheOldOne(t *testing.T) {
	f := &fake{watch: func(ctx context.Context, r eviction.WatchRequest, wake func(eviction.Wake)) error {
		wake(eviction.Wake{Signal: r.Thresholds[0].Signal})
		<-ctx.Done()
		return ctx.Err()
	}}
	p := connect(t, f.plugin())
	watch := func(ctx context.Context, s eviction.Signal) (started chan struct{}, ended chan error) {
		started, ended = make(chan struct{}), make(chan error, 1)
		go func() {
			req := eviction.WatchRequest{Thresholds: []eviction.WatchThreshold{{Signal: s}}}
			ended <- p.Watcher.Watch(ctx, req, func(eviction.Wake) { close(started) })
		}()
		return started, ended
	}
	ctx, cancel := context.WithCancel(within(t, 5*time.Second))
	defer cancel()
	started, first := watch(ctx, "first")
	<-started
	started, second := watch(ctx, "second")
	<-started
	wantOnly(t, <-first, eviction.ErrRefused)
	select {
	case err := <-second:
		t.Errorf("the new watch ended with %v", err)
	default:
	}
	cancel()
	wantOnly(t, <-second, context.Canceled)
}

func TestReclaimReportsProgressAndResult(t *testing.T) {
	broken := errors.New("one image is in use")
	for name, end := range map[string]error{"success": nil, "error": broken} {
		t.Run(name, func(t *testing.T) {
			f := &fake{reclaim: func(_ context.Context, r eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
				progress(eviction.Reclaimed{Bytes: 1, Message: r.Step})
				progress(eviction.Reclaimed{Bytes: 2})
				return eviction.Reclaimed{Bytes: 3, Inodes: 1, Message: "done"}, end
			}}
			p := connect(t, f.plugin())
			var seen []int64
			got, err := p.Reclaimer.Reclaim(within(t, 5*time.Second), eviction.ReclaimRequest{Step: "image-gc"}, func(r eviction.Reclaimed) {
				seen = append(seen, r.Bytes)
			})
			if end == nil && err != nil {
				t.Errorf("got error %v", err)
			} else if end != nil {
				wantOnly(t, err, eviction.ErrRefused)
			}
			if want := (eviction.Reclaimed{Bytes: 3, Inodes: 1, Message: "done"}); got != want {
				t.Errorf("result %+v, want %+v", got, want)
			}
			if want := []int64{1, 2, 3}; !slices.Equal(seen, want) {
				t.Errorf("progress %v, want %v", seen, want)
			}
		})
	}
}
