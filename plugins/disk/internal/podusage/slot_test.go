package podusage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
)

// Four walk at a time. More directories than that hang, and must neither keep them
// all nor hold up a call until its deadline, the first as little as the next.
func TestManyDirectoriesThatHangDelayNoCall(t *testing.T) {
	story(t, func(t *testing.T, n *node, d *disk) {
		var pods []eviction.Pod
		back := make(chan struct{})
		for i := range 5 {
			name := fmt.Sprint("hung", i)
			d.chunks[name], d.hangs[name] = 3, back
			pods = append(pods, n.add("of-"+name, []eviction.Volume{emptyDir(name)}))
		}
		for i := range 20 {
			name := fmt.Sprint("good", i)
			d.chunks[name] = 2
			pods = append(pods, n.add("of-"+name, []eviction.Volume{emptyDir(name)}))
		}
		for call, most := range []time.Duration{3 * hangsAfter, hangsAfter} {
			began := time.Now()
			got := n.within(5*time.Second, pods...)
			if took := time.Since(began); took > most {
				t.Errorf("call %d took %v, want at most %v", call, took, most)
			}
			for _, row := range pods[:5] {
				wantVolume(t, got[row.UID], "state 0 volume "+row.Volumes[0].Name+": its filesystem does not answer")
			}
			for _, row := range pods[5:] {
				wantVolume(t, got[row.UID], "2Mi 40000")
			}
		}
		// What was left behind gives up its place, and where it was replaced meanwhile
		// its descriptors.
		old := n.meter
		n.start(Walk{})
		fresh := n.newDisk()
		maps.Copy(fresh.chunks, d.chunks)
		old.Close()
		if d.waiting() != 5 {
			t.Errorf("%d walks hang, want 5", d.waiting())
		}
		close(back)
		time.Sleep(time.Second)
		synctest.Wait()
		if d.waiting() != 0 {
			t.Errorf("%d walks are open though their meter is closed and nothing hangs any more", d.waiting())
		}
		wantVolume(t, n.within(5*time.Second, pods...)["of-hung0"], "3Mi 60000")
	})
}

// The files that are read beside walks can hang as well.
func TestAPodWhoseFilesHangIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, back := new(hang.Left), make(chan struct{})
		hangs := func() int { <-back; return 1 }
		answers := func() int { return 2 }
		for _, c := range []struct {
			uid  string
			f    func() int
			want int
			err  error
			took time.Duration
		}{
			{"bad", hangs, 0, errHangs, hangsAfter},
			{"bad", answers, 0, errHangs, 0},
			{"good", answers, 2, nil, 0},
		} {
			began := time.Now()
			if got, err := guard(t.Context(), h, c.uid, c.f); got != c.want || !errors.Is(err, c.err) || time.Since(began) != c.took {
				t.Errorf("%s: %d, %v after %v, want %d, %v after %v", c.uid, got, err, time.Since(began), c.want, c.err, c.took)
			}
		}
		close(back)
		synctest.Wait()
		if got, err := guard(t.Context(), h, "bad", answers); got != 2 || err != nil {
			t.Errorf("it came back: %d, %v", got, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), hangsAfter/2)
		defer cancel()
		late := make(chan struct{})
		defer close(late)
		if _, err := guard(ctx, h, "late", func() int { <-late; return 1 }); !errors.Is(err, errLate) {
			t.Errorf("%v, want an end with the deadline", err)
		}
	})
}
