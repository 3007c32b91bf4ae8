package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/metrics"
	victimcri "github.com/evictd/evictd/host/internal/node/victim/cri"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// A life runs one evictd: it dies with its n-th step, before it is made or after, and then does
// nothing any more.
type life struct {
	w *world
	runtimeapi.RuntimeServiceClient

	mu    sync.Mutex
	left  int // steps, negative for ever
	after bool
	dead  chan struct{}
	last  string
}

var errDead = errors.New("this evictd is dead")

// step makes a step.
func (l *life) step(name string, do func() error) error {
	l.mu.Lock()
	select {
	case <-l.dead:
		l.mu.Unlock()
		return errDead
	default:
	}
	l.left--
	if dies := l.left == 0; !dies || l.after {
		l.last = name
		l.mu.Unlock()
		err := do()
		if dies {
			die(l)
			return errDead
		}
		return err
	}
	l.last = name
	l.mu.Unlock()
	die(l)
	return errDead
}

func die(l *life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w.tell("evictd dies at " + l.last)
	close(l.dead)
}

func alive(l *life) bool {
	select {
	case <-l.dead:
		return false
	default:
		return true
	}
}

func (l *life) SaveKill(k victim.Kill) error {
	return l.step("save", func() error { return l.w.SaveKill(k) })
}

func (l *life) RemoveKill(uid string) error {
	return l.step("remove", func() error { return l.w.RemoveKill(uid) })
}

func (l *life) PatchPodStatus(ctx context.Context, namespace, name string, body []byte, dryRun bool) (pod *v1.Pod, err error) {
	err = l.step("patch", func() error {
		pod, err = l.w.PatchPodStatus(ctx, namespace, name, body, dryRun)
		return err
	})
	return pod, err
}

func (l *life) DeletePod(ctx context.Context, namespace, name string, uid types.UID, graceSeconds int64) error {
	return l.step("delete", func() error { return l.w.DeletePod(ctx, namespace, name, uid, graceSeconds) })
}

func (l *life) CreateEvent(ctx context.Context, event *v1.Event) error {
	return l.step("event", func() error { return l.w.CreateEvent(ctx, event) })
}

func (l *life) StopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest, o ...grpc.CallOption) (answer *runtimeapi.StopContainerResponse, err error) {
	err = l.step("stop container", func() error {
		answer, err = l.RuntimeServiceClient.StopContainer(ctx, r, o...)
		return err
	})
	return answer, err
}

func (l *life) StopPodSandbox(ctx context.Context, r *runtimeapi.StopPodSandboxRequest, o ...grpc.CallOption) (answer *runtimeapi.StopPodSandboxResponse, err error) {
	err = l.step("stop sandbox", func() error {
		answer, err = l.RuntimeServiceClient.StopPodSandbox(ctx, r, o...)
		return err
	})
	return answer, err
}

// silent is a victim.Recorder: the killer sends what the API server is to have.
type silent struct{}

// PodEvent implements victim.Recorder.
func (silent) PodEvent(pods.Pod, string, string, string, map[string]string) {}

// live runs an evictd until it dies or the story ends. It goes on with what the journal has,
// or takes the pod as its victim.
func (l *life) live(first bool, graceSeconds int64) (ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(l.w.ctx)
	k := New(Options{
		Options: victimcri.Options{Runtime: l, Log: slog.New(slog.NewTextHandler(&l.w.log, nil))},
		API:     l, NodeName: "node-1", Refused: func(pods.Pod, error) {}, Journal: l, Pods: l.w.pods, MayDelete: l.w.mayDelete, DryRun: func() bool { return false }, Short: func(string) (known, is bool) { return true, false },
	})
	restored := k.Restore(load(l))
	s := victim.NewSet(victim.Options{
		Killer: k, Recorder: silent{}, Journal: k, Metrics: metrics.New("test", ""), Log: slog.New(slog.NewTextHandler(&l.w.log, nil)),
		Moment: func() policy.Moment { return policy.Moment{Time: time.Now()} }, Restored: restored, SaveOwed: func([]policy.Owed) error { return nil },
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		var reported sync.WaitGroup
		defer reported.Wait()
		reported.Go(func() { k.Run(ctx) })
		s.Begin(ctx)
		switch {
		case first:
			s.Kill(s.Start(l.w.victim(graceSeconds)), victim.AwaitEvictd)
		default:
			hold, _ := s.Resume(active(l), false, func(eviction.Signal) (bool, bool) { return true, false })
			for _, v := range hold {
				s.Kill(v, victim.AwaitEvictd)
			}
		}
		for {
			select {
			case r := <-s.Reports():
				s.Handle(r)
			case <-l.dead:
				cancel()
				s.Drain()
				return
			case <-ctx.Done():
				s.Drain()
				return
			}
		}
	}()
	return done
}

// load returns the kills as a run directory would.
func load(l *life) (kills []victim.Kill) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for _, k := range l.w.journal {
		k.DecidedAt, k.GraceEnds = k.EvictedAt, k.EvictedAt.Add(time.Duration(k.GraceSeconds)*time.Second)
		k.GraceSeconds = max(1, int64(time.Until(k.GraceEnds).Seconds()))
		kills = append(kills, k)
	}
	return kills
}

// active returns the snapshot of a source of pods.
func active(l *life) (s pods.Snapshot) {
	if l.w.cri.Running(uid) {
		s.Pods = append(s.Pods, l.w.victim(1).Pod)
	}
	return s
}

// Wherever evictd is killed, the next one finishes what it began: the pod dies, the API
// server knows why, nothing is left in the journal, and nobody else goes.
func TestEvictdMayDieAfterEachOfItsSteps(t *testing.T) {
	outage := 6 * time.Second // each second of it has two steps more, and a dead sandbox more in all later lists
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		outage = 20 * time.Second
	}
	for name, c := range map[string]struct {
		spec  podSpec
		grace int64
		away  time.Duration
	}{
		"hard":                                   {spec: podSpec{restarts: true}, grace: 1},
		"hard, it does not mind SIGTERM":         {spec: podSpec{restarts: true, main: fakecri.Container{DiesAfter: fakecri.IgnoresTerm}}, grace: 1},
		"hard, never restarted":                  {grace: 1},
		"hard, API server away":                  {spec: podSpec{restarts: true}, grace: 1, away: outage},
		"hard, API server away, not restarted":   {grace: 1, away: 20 * time.Second},
		"soft":                                   {spec: podSpec{restarts: true, preStop: 5 * time.Second}, grace: 20},
		"soft, longer than it may":               {spec: podSpec{restarts: true, preStop: 25 * time.Second}, grace: 10},
		"soft, API server away":                  {spec: podSpec{restarts: true}, grace: 20, away: outage},
		"soft, API server away, not restarted":   {grace: 20, away: 20 * time.Second},
		"soft, API server away for a short time": {spec: podSpec{restarts: true, main: fakecri.Container{DiesAfter: 5 * time.Second}}, grace: 20, away: 3 * time.Second},
	} {
		for _, after := range []bool{false, true} {
			for n := 1; ; n++ {
				died := false
				t.Run(fmt.Sprintf("%s/after %v/step %d", name, after, n), func(t *testing.T) {
					c.spec.grace = 60
					in(t, c.spec, func(t *testing.T, w *world) {
						w.policy = n%2 == 0
						forgeries()[n%len(forgeries())].set(w.pod)
						died = dieAt(t, w, n, after, c.grace, c.away)
					})
				})
				if !died || t.Failed() {
					break
				}
			}
		}
	}
}

// dieAt plays the story of an evictd that dies at its n-th step and of the next one, and reports
// whether the first one had so many.
func dieAt(t *testing.T, w *world, n int, after bool, grace int64, away time.Duration) (died bool) {
	w.cri.Add(fakecri.Pod{UID: "uid-other", Namespace: "shop", Name: "other", Containers: []fakecri.Container{{Name: "main"}}})
	if away > 0 {
		w.fails = errRefused
		go func() {
			pause(w.ctx, away)
			w.change(func() { w.fails = nil })
		}()
	}
	first := &life{w: w, RuntimeServiceClient: w.cri.Client(), left: n, after: after, dead: make(chan struct{})}
	ended := first.live(true, grace)
	select {
	case <-ended:
	case <-time.After(75 * time.Second):
	}
	died = !alive(first)
	if died {
		pause(w.ctx, 2*time.Second) // until it is started again
		next := &life{w: w, RuntimeServiceClient: w.cri.Client(), left: -1, dead: make(chan struct{})}
		next.live(false, grace)
		pause(w.ctx, 75*time.Second)
	}
	intended := n > 1 || after
	if ran := w.cri.Running(uid); ran == intended {
		t.Errorf("the pod runs: %v", ran)
	}
	if evicted(w) != intended {
		t.Errorf("evicted: %v, status %+v", evicted(w), w.status())
	}
	if note, there := w.noted(); there {
		t.Errorf("the journal still has %+v", note)
	}
	if len(w.events) > 1 || len(w.events) == 1 != intended {
		t.Errorf("%d events", len(w.events))
	}
	if ended, most := when(w, "main ended"), time.Duration(grace+12)*time.Second; intended && (ended < 0 || ended > most) {
		t.Errorf("ended after %v, want %v at most", ended, most)
	}
	if !w.cri.Running("uid-other") {
		t.Error("another pod was stopped")
	}
	return died
}

// A restart wrote the eviction to the API server, and with it to all that watch the pod, once more.
func TestTheNextEvictdDoesNotTellAgainWhatIsKnown(t *testing.T) {
	in(t, podSpec{grace: 60, preStop: 20 * time.Second}, func(t *testing.T, w *world) {
		first := &life{w: w, RuntimeServiceClient: w.cri.Client(), left: 5, after: true, dead: make(chan struct{})} // save, patch, event, save, save
		<-first.live(true, 60)
		if note, _ := w.noted(); !note.Recorded {
			t.Fatalf("the journal has %+v", note)
		}
		next := &life{w: w, RuntimeServiceClient: w.cri.Client(), left: -1, dead: make(chan struct{})}
		next.live(false, 60)
		pause(w.ctx, time.Minute)
		if w.asked.patches != 1 || when(w, "preStop ended") < 20*time.Second || when(w, "TERM main") < when(w, "preStop ended") {
			t.Errorf("told %d times", w.asked.patches)
		}
	})
}
