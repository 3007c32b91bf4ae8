package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func candidates(uids ...string) []eviction.Candidate {
	all := make([]eviction.Candidate, len(uids))
	for n, uid := range uids {
		all[n].Pod.UID = uid
	}
	return all
}

func TestRankingOfPodsThatWereNeverSent(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "ranks-foreign", "ranks-twice", "good"))
	for name, says := range map[string]string{
		"ranks-foreign": `plugin ranks-foreign: rank: invalid reply from plugin: pod uid "never-sent" in the ranking was never sent`,
		"ranks-twice":   `plugin ranks-twice: rank: invalid reply from plugin: pod uid "a" is in the ranking twice`,
	} {
		p, i := h.pinned(name)
		ranked, err := i.Plugin.Ranker.Rank(t.Context(), eviction.RankRequest{Signal: i.Plugin.Signals[0].Signal, Candidates: candidates("a", "b")})
		if !errors.Is(err, eviction.ErrInvalidReply) || ranked != nil {
			t.Errorf("%s: got %v, %v, want an invalid reply and no ranking", name, ranked, err)
		}
		want(t, fmt.Sprint(err), says)
		want(t, h.plugin(name).LastError, says)
		p.Release()
	}
	p, i := h.pinned("good")
	defer p.Release()
	ranked, err := i.Plugin.Ranker.Rank(t.Context(), eviction.RankRequest{Signal: i.Plugin.Signals[0].Signal, Candidates: candidates("a", "b")})
	if err != nil || len(ranked) != 2 || ranked[0].UID != "a" {
		t.Errorf("got %v, %v, want a and b", ranked, err)
	}
}

func TestObservationsThatCannotBe(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "observes-rubbish"))
	p, i := h.pinned("observes-rubbish")
	defer p.Release()
	r, err := i.Plugin.Observer.Observe(t.Context(), eviction.ObserveRequest{Signals: []eviction.Signal{i.Plugin.Signals[0].Signal}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Observations) != 1 || r.Observations[0].State != eviction.Unknown {
		t.Errorf("got %+v, want one observation, unknown", r.Observations)
	}
	want(t, r.Observations[0].Err, "observed twice in one reply")
	want(t, h.log.String(), "plugin broke the contract", "pid.available", "which was not asked for")
}

func TestMeasurementsOfPodsThatWereNeverSent(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "measures-foreign"))
	p, i := h.pinned("measures-foreign")
	defer p.Release()
	var uids []string
	err := i.Plugin.Measurer.Measure(t.Context(), eviction.MeasureRequest{
		Detail: eviction.DetailPod, Signals: []eviction.Signal{i.Plugin.Signals[0].Signal}, Pods: []eviction.Pod{{UID: "a"}, {UID: "b"}},
	}, func(m eviction.Measurement) { uids = append(uids, m.UID) })
	if !errors.Is(err, eviction.ErrInvalidReply) {
		t.Errorf("got %v, want an invalid reply", err)
	}
	want(t, fmt.Sprint(err), "plugin measures-foreign: measure", "never-sent")
	if got := strings.Join(uids, " "); got != "a b" {
		t.Errorf("got measurements of %q, want those of a and b all the same", got)
	}
}

func TestReclaimThatIsStuck(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good"), func(o *Options) { o.Timeouts.ReclaimIdle = 2 * time.Second })
	p, i := h.pinned("good")
	defer p.Release()
	var progress []int64
	note := func(r eviction.Reclaimed) { progress = append(progress, r.Bytes) }
	released, err := i.Plugin.Reclaimer.Reclaim(t.Context(), eviction.ReclaimRequest{Step: "stuck"}, note)
	if !errors.Is(err, context.DeadlineExceeded) || released.Bytes != 1 {
		t.Errorf("got %+v, %v, want a timeout and what was freed until then", released, err)
	}
	want(t, fmt.Sprint(err), "plugin good: reclaim", "no progress")
	released, err = i.Plugin.Reclaimer.Reclaim(t.Context(), eviction.ReclaimRequest{Step: "quick"}, note)
	if err != nil || released.Bytes != 2 {
		t.Errorf("got %+v, %v, want 2 bytes", released, err)
	}
}
