package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

func TestThePatchIsTheOneThatAKubeletActsOn(t *testing.T) {
	at := time.Date(2026, 1, 1, 1, 0, 0, 5000, time.FixedZone("", 3600))
	k := victim.Kill{UID: "uid-1", Message: "The node was low on resource: memory. ", EvictedAt: at, Generation: 3}
	for name, c := range map[string]struct {
		limit bool
		form  form
		want  string
	}{
		"by a label": {form: labeled, want: `{
			"metadata": {"uid": "uid-1", "labels": {"evictd.io/evicted": "20260101T000000.000005000Z"}},
			"status": {
				"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. ",
				"conditions": [{
					"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
					"message": "The node was low on resource: memory. ",
					"observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z"
				}]
			}
		}`},
		"by a label alone": {form: bare, want: `{
			"metadata": {"uid": "uid-1", "labels": {"evictd.io/evicted": "20260101T000000.000005000Z"}},
			"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. "}
		}`},
		"for the node": {want: `{
			"metadata": {"uid": "uid-1", "annotations": {"evictd.io/evicted": "2026-01-01T00:00:00.000005Z"}},
			"status": {
				"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. ",
				"conditions": [{
					"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet",
					"message": "The node was low on resource: memory. ",
					"observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z"
				}]
			}
		}`},
		"for a limit of its own": {limit: true, want: `{
			"metadata": {"uid": "uid-1", "annotations": {"evictd.io/evicted": "2026-01-01T00:00:00.000005Z"}},
			"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory. "}
		}`},
	} {
		t.Run(name, func(t *testing.T) {
			k.Limit = c.limit
			body, err := patchOf(k, c.form, "")
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := json.Unmarshal(body, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A hard victim is stopped beside the message to the API server, not after it.
func TestAHardVictimHasItsTermAtOnce(t *testing.T) {
	in(t, podSpec{grace: 30, sidecar: true, restarts: true, main: fakecri.Container{DiesAfter: 300 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.latency = 75 * time.Millisecond
		k, _ := w.killer()
		took, err := w.evict(k, w.victim(1))
		if err != nil || took > time.Second {
			t.Errorf("took %v, error %v", took, err)
		}
		if term, patched := when(w, "TERM main"), when(w, "patched"); term != 0 || patched > 80*time.Millisecond {
			t.Errorf("SIGTERM after %v and the patch after %v, want both at once", term, patched)
		}
		if when(w, "TERM side") < when(w, "main ended") {
			t.Error("the sidecar ended before the main container")
		}
		pause(w.ctx, time.Minute)
		if !evicted(w) || w.kubelet.restarts != 0 || len(w.patches) != 1 {
			t.Errorf("status %+v, %d restarts, %d patches, want an evicted pod by one patch", w.status(), w.kubelet.restarts, len(w.patches))
		}
		if k, there := w.noted(); there {
			t.Errorf("the journal still has %+v", k)
		}
	})
}

func TestAHardVictimThatDoesNotMindSigtermIsKilledAfterASecond(t *testing.T) {
	in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: fakecri.IgnoresTerm}}, func(t *testing.T, w *world) {
		k, _ := w.killer()
		if took, err := w.evict(k, w.victim(1)); err != nil || took > 1200*time.Millisecond || took < time.Second {
			t.Errorf("took %v, error %v, want a second", took, err)
		}
	})
}

// Evicted beside a kubelet, a pod lost its preStop hook.
func TestASoftVictimEndsAsItWants(t *testing.T) {
	in(t, podSpec{grace: 30, preStop: 8 * time.Second, sidecar: true, restarts: true, main: fakecri.Container{DiesAfter: 3 * time.Second}}, func(t *testing.T, w *world) {
		k, _ := w.killer()
		took, err := w.evict(k, w.victim(30))
		if err != nil || took > 12*time.Second {
			t.Errorf("took %v, error %v, want 11 s and no error", took, err)
		}
		if hook, term, side := when(w, "preStop ended"), when(w, "TERM main"), when(w, "TERM side"); hook < 8*time.Second || term < hook || side < when(w, "main ended") {
			t.Errorf("hook ended after %v, SIGTERM after %v, that of the sidecar after %v: want this order", hook, term, side)
		}
		if w.dryRuns != 0 || !evicted(w) {
			t.Errorf("the API server had %d dry runs, status %+v", w.dryRuns, w.status())
		}
	})
}

func TestTheGraceOfASoftVictimEndsWithWhatIsAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		spec podSpec
		want time.Duration
	}{
		"its own grace is longer":       {spec: podSpec{grace: 60, main: fakecri.Container{DiesAfter: fakecri.IgnoresTerm}}, want: 5 * time.Second},
		"its hook is longer":            {spec: podSpec{grace: 60, preStop: 50 * time.Second, main: fakecri.Container{DiesAfter: time.Second}}, want: 6 * time.Second},
		"hook and container are longer": {spec: podSpec{grace: 60, preStop: 50 * time.Second, main: fakecri.Container{DiesAfter: fakecri.IgnoresTerm}}, want: 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, c.spec, func(t *testing.T, w *world) {
				k, _ := w.killer()
				if took, err := w.evict(k, w.victim(5)); err != nil || took < c.want || took > c.want+100*time.Millisecond {
					t.Errorf("took %v, error %v, want %v", took, err, c.want)
				}
			})
		})
	}
}

// The kubelet does one thing at a time with a pod.
func TestAVictimThatTheKubeletDoesNotEndIsGoneInTwoSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		spec    podSpec
		kubelet kubelet
	}{
		"its image is being pulled":                   {spec: podSpec{noRuns: true}, kubelet: kubelet{stuck: true}},
		"a hook runs after the start of its main one": {kubelet: kubelet{stuck: true}},
		"the kubelet is down":                         {kubelet: kubelet{down: true}},
		"the kubelet does not hear":                   {kubelet: kubelet{deaf: true}},
	} {
		for grace, seconds := range map[string]int64{"soft": 30, "hard": 1} {
			t.Run(name+", "+grace, func(t *testing.T) {
				c.spec.grace, c.spec.sidecar = 30, true
				in(t, c.spec, func(t *testing.T, w *world) {
					w.kubelet = c.kubelet
					k, _ := w.killer()
					took, err := w.evict(k, w.victim(seconds))
					if err != nil || took > 2500*time.Millisecond || w.cri.Running(uid) {
						t.Errorf("took %v, error %v, want 2 s", took, err)
					}
					if len(w.patches) != 1 {
						t.Errorf("%d patches, want one", len(w.patches))
					}
				})
			})
		}
	}
}

// An etcd that takes a second per call makes the kubelet late, and not its end of the pod.
func TestASlowAPIServerDoesNotCutAHook(t *testing.T) {
	in(t, podSpec{grace: 60, preStop: 20 * time.Second}, func(t *testing.T, w *world) {
		w.latency = 2 * time.Second
		k, _ := w.killer()
		if _, err := w.evict(k, w.victim(60)); err != nil {
			t.Error(err)
		}
		if hook := when(w, "preStop ended"); hook < 20*time.Second || when(w, "TERM main") < hook {
			t.Errorf("hook ended after %v, SIGTERM came after %v", hook, when(w, "TERM main"))
		}
	})
}

func TestAnAPIServerThatGoesAwayAfterThePatchDoesNotCutAHook(t *testing.T) {
	in(t, podSpec{grace: 60, preStop: 20 * time.Second}, func(t *testing.T, w *world) {
		k, _ := w.killer()
		go func() {
			pause(w.ctx, 500*time.Millisecond)
			w.change(func() { w.fails = errRefused })
		}()
		took, err := w.evict(k, w.victim(60))
		if hook := when(w, "preStop ended"); err != nil || hook < 20*time.Second || when(w, "TERM main") < hook || took > 22*time.Second {
			t.Errorf("hook ended after %v, SIGTERM came after %v, the kill took %v (%v)", hook, when(w, "TERM main"), took, err)
		}
	})
}

func TestWithoutAnAPIServerThePodDiesInTimeAndTheRecordArrives(t *testing.T) {
	for name, c := range map[string]struct {
		grace int64
		dies  time.Duration
		fails error
		hangs bool
	}{
		"hard, it hangs":             {grace: 1, dies: 1200 * time.Millisecond, hangs: true},
		"soft, it hangs":             {grace: 10, dies: apiTimeout + 1200*time.Millisecond, hangs: true},
		"hard":                       {grace: 1, dies: 1200 * time.Millisecond, fails: errRefused},
		"soft":                       {grace: 10, dies: 2200 * time.Millisecond, fails: errRefused},
		"it starts":                  {grace: 1, dies: 1200 * time.Millisecond, fails: statusError(http.StatusServiceUnavailable, "starting")},
		"etcd has lost its leader":   {grace: 1, dies: 1200 * time.Millisecond, fails: statusError(http.StatusInternalServerError, "etcdserver: no leader")},
		"it knows no roles yet":      {grace: 1, dies: 1200 * time.Millisecond, fails: statusError(http.StatusForbidden, "RBAC: clusterrole not found")},
		"the token has been rotated": {grace: 1, dies: 1200 * time.Millisecond, fails: statusError(http.StatusUnauthorized, "Unauthorized")},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30, restarts: true, main: fakecri.Container{DiesAfter: time.Second}}, func(t *testing.T, w *world) {
				if w.fails = c.fails; c.hangs {
					w.latency = time.Hour
				}
				k, _ := w.killer()
				v := w.victim(c.grace)
				_, _ = w.evict(k, v)
				if ended := when(w, "main ended"); ended < 0 || ended > c.dies {
					t.Errorf("ended after %v, want %v at most", ended, c.dies)
				}
				if note, there := w.noted(); !there || !note.Ended || note.Recorded || !note.EvictedAt.Equal(v.EvictedAt) {
					t.Errorf("the journal has %+v, want a pod that has ended and is not recorded", note)
				}
				pause(w.ctx, 50*time.Second)
				w.change(func() { w.fails, w.latency = nil, 20*time.Millisecond })
				pause(w.ctx, time.Minute)
				if !evicted(w) || w.cri.Running(uid) || len(w.patches) == 0 {
					t.Errorf("status %+v, want it evicted", w.status())
				}
				if note, there := w.noted(); there {
					t.Errorf("the journal still has %+v", note)
				}
				if w.asked.patches > 60 {
					t.Errorf("the API server was asked %d times in a minute", w.asked.patches)
				}
			})
		})
	}
}

// The kubelet restarts what was stopped for as long as it has not received the eviction.
func TestAVictimThatTheKubeletRestartsIsEndedAgain(t *testing.T) {
	in(t, podSpec{grace: 30, restarts: true, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.fails = errRefused
		k, _ := w.killer()
		if _, err := w.evict(k, w.victim(1)); err != nil {
			t.Error(err)
		}
		pause(w.ctx, 30*time.Second)
		if n := w.kubelet.restarts; n < 3 {
			t.Errorf("%d restarts, want it ended each time", n)
		}
		w.change(func() { w.fails = nil })
		pause(w.ctx, 15*time.Second)
		before := w.kubelet.restarts
		pause(w.ctx, time.Minute)
		if w.kubelet.restarts != before || w.cri.Running(uid) || !evicted(w) {
			t.Errorf("%d restarts after the API server had the eviction, status %+v", w.kubelet.restarts-before, w.status())
		}
	})
}

// After an outage the API server listens to a kubelet that does not listen to it: it wrote
// Running over the eviction, and the pod ran on for ever.
func TestAKubeletThatWritesOverTheEvictionDoesNotSaveThePod(t *testing.T) {
	for name, restart := range map[string]bool{"the same evictd": false, "the next evictd": true} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30, restarts: true, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
				w.kubelet.deaf, w.policy = true, true
				k, end := w.killer()
				if _, err := w.evict(k, w.victim(1)); err != nil {
					t.Error(err)
				}
				if restart {
					end()
				}
				pause(w.ctx, 1500*time.Millisecond)
				if restart {
					w.change(func() { w.kubelet.deaf = false })
					w.killer()
				} else {
					pause(w.ctx, 20*time.Second)
					w.change(func() { w.kubelet.deaf = false })
				}
				pause(w.ctx, time.Minute)
				if w.kubelet.restarts == 0 || !evicted(w) || w.cri.Running(uid) {
					t.Errorf("%d restarts, status %+v, running %v", w.kubelet.restarts, w.status(), w.cri.Running(uid))
				}
				if len(w.patches) < 2 || w.patches[0].body.Metadata.Annotations[victim.AnnotationEvicted] == w.patches[1].body.Metadata.Annotations[victim.AnnotationEvicted] {
					t.Errorf("patches %+v, want another annotation in the second", w.patches)
				}
				if text := w.patches[1].body.Status.Message; text != "The node was low on resource: memory. " {
					t.Errorf("message %q, want the first one", text)
				}
				if note, there := w.noted(); there {
					t.Errorf("the journal still has %+v", note)
				}
			})
		})
	}
}

// An evictd died when it had stopped a pod, the next one wrote that to the API server after an
// outage, and the kubelet, which had not received that, wrote that the pod runs again: it ran on.
func TestAnOutageAndARestartDoNotSaveThePod(t *testing.T) {
	in(t, podSpec{grace: 30, restarts: true, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.fails, w.kubelet.deaf, w.policy = errRefused, true, true
		first, end := w.killer()
		v := w.victim(1)
		w.must(first.SaveKill(v.Kill))
		_ = first.Kill(w.ctx, v)
		end()
		note, _ := w.noted()
		next := w.made()
		next.Restore([]victim.Kill{note})
		go next.Run(w.ctx)
		w.must(next.RemoveKill(v.UID)) // nothing of it runs
		pause(w.ctx, 65*time.Second)
		w.change(func() { w.fails = nil })
		pause(w.ctx, 10*time.Second)
		w.change(func() { w.pod.Status.Phase, w.pod.Status.Reason = v1.PodRunning, "" })
		pause(w.ctx, 40*time.Second)
		w.change(func() { w.kubelet.deaf = false })
		pause(w.ctx, time.Minute)
		if !evicted(w) || w.cri.Running(uid) || len(w.events) != 1 {
			t.Errorf("status %+v, running %v, %d events", w.status(), w.cri.Running(uid), len(w.events))
		}
	})
}

func TestAnEvictionThatTheAPIServerAloneKnowsIsJudged(t *testing.T) {
	critical := int32(2_000_000_000)
	for name, c := range map[string]struct {
		ago      time.Duration
		unlooked bool
		short    string
		priority *int32
		ends     bool
		says     string
	}{
		"just now":                           {ago: 30 * time.Second, ends: true},
		"long ago, and the node is short":    {ago: 25 * time.Minute, short: "memory", ends: true},
		"long ago, and the node is well":     {ago: 25 * time.Minute, says: "long ago and the node is not short"},
		"long ago, and it is short of other": {ago: 25 * time.Minute, short: "pids", says: "long ago and the node is not short"},
		"long ago, and nothing is known":     {ago: 25 * time.Minute, unlooked: true},
		"just now, and the pod is critical":  {ago: 30 * time.Second, short: "memory", priority: &critical, says: "may not be evicted any more"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30}, func(t *testing.T, w *world) {
				w.looked, w.short, w.pod.Spec.Priority = !c.unlooked, c.short, c.priority
				at := time.Now().Add(-c.ago)
				w.pod.Annotations = map[string]string{victim.AnnotationEvicted: at.UTC().Format(time.RFC3339Nano)}
				w.pod.Labels = map[string]string{victim.AnnotationEvicted: time.Now().Add(time.Hour).UTC().Format(labelTime)} // its owner's
				w.pod.Status.Conditions = append(w.pod.Status.Conditions, v1.PodCondition{
					Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonTerminationByKubelet, LastTransitionTime: metav1.NewTime(at),
					Message: "The node was low on resource: memory. Threshold quantity: 1Gi, available: 1Mi. ",
				})
				w.killer()
				pause(w.ctx, 2*time.Minute)
				if evicted(w) != c.ends || w.cri.Running(uid) == c.ends {
					t.Errorf("evicted: %v, running: %v, want ended %v", evicted(w), w.cri.Running(uid), c.ends)
				}
				if n := strings.Count(w.log.String(), c.says); c.says != "" && n != 1 {
					t.Errorf("the log says %q %d times, want once", c.says, n)
				}
				if !c.unlooked {
					return
				}
				w.change(func() { w.looked, w.short = true, "memory" })
				pause(w.ctx, time.Minute)
				if !evicted(w) || w.cri.Running(uid) {
					t.Error("still runs when the node is known to be short")
				}
			})
		})
	}
}

// Over an eviction of which it did not hear the kubelet wrote that the container had crashed:
// nobody ended the pod for the five minutes that may pass until its next start.
func TestAnEvictedPodInCrashLoopBackOffIsEvictedAgain(t *testing.T) {
	in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.kubelet.down, w.policy = true, true
		k, _ := w.killer()
		if _, err := w.evict(k, w.victim(1)); err != nil {
			t.Error(err)
		}
		w.cri.Add(fakecri.Pod{UID: uid, Namespace: "shop", Name: "cart"})
		for want := 2; want < 4; want++ {
			w.change(func() { w.pod.Status.Phase, w.pod.Status.Reason, w.kubelet.down = v1.PodRunning, "", want < 3 })
			pause(w.ctx, 20*time.Second)
			if !evicted(w) || len(w.patches) != want {
				t.Errorf("status %+v after %d patches, want %d", w.status(), len(w.patches), want)
			}
		}
		if !w.kubelet.terminating {
			t.Error("the kubelet has not heard of it")
		}
	})
}

// A runtime that hangs for longer than a kill may take.
func TestAKillThatTookTooLongIsFinished(t *testing.T) {
	for name, deleted := range map[string]bool{"the API server has the eviction": false, "the pod is being deleted": true} {
		for grace, seconds := range map[string]int64{"soft": 5, "hard": 1} {
			t.Run(name+", "+grace, func(t *testing.T) {
				in(t, podSpec{grace: 60, main: fakecri.Container{DiesAfter: fakecri.IgnoresTerm}}, func(t *testing.T, w *world) {
					w.kubelet.down = true
					if deleted {
						w.pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
					}
					k, _ := w.killer()
					v := w.victim(seconds)
					w.cri.Inject(fakecri.StopContainer, fakecri.Fault{Hang: true})
					w.must(k.SaveKill(v.Kill))
					if err := k.Kill(w.ctx, v); !errors.Is(err, victim.ErrTimeout) {
						t.Errorf("error %v, want ErrTimeout", err)
					}
					w.cri.Heal()
					for range 10 {
						if finished(w, k, v) {
							return
						}
						pause(w.ctx, lookInterval)
					}
					t.Error("it runs on")
				})
			})
		}
	}
}

// It may take a while until a kubelet that does not hear tells what it has restarted.
func TestAVictimThatIsRestartedInSilenceIsEndedAgain(t *testing.T) {
	in(t, podSpec{grace: 30, restarts: true, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.kubelet.deaf, w.kubelet.mute = true, true
		k, _ := w.killer()
		if _, err := w.evict(k, w.victim(1)); err != nil {
			t.Error(err)
		}
		for range 5 {
			for !w.cri.Running(uid) {
				pause(w.ctx, firstLook)
			}
			seen := time.Now()
			for w.cri.Running(uid) && time.Since(seen) < time.Minute {
				pause(w.ctx, firstLook)
			}
			if ran := time.Since(seen); ran > 2*lookInterval {
				t.Errorf("it ran for %v", ran)
			}
		}
	})
}

// An evictd that ends gives its kills some time, and leaves the rest to the kubelet and the
// next evictd.
func TestAKillThatIsBrokenOffIsNotFinishedInAHurry(t *testing.T) {
	in(t, podSpec{grace: 60, preStop: 20 * time.Second}, func(t *testing.T, w *world) {
		k, _ := w.killer()
		v := w.victim(60)
		w.must(k.SaveKill(v.Kill))
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		defer cancel()
		if err := k.Kill(ctx, v); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, victim.ErrTimeout) {
			t.Errorf("error %v, want the caller's", err)
		}
		pause(w.ctx, time.Minute)
		if hook := when(w, "preStop ended"); hook < 20*time.Second || when(w, "TERM main") < hook {
			t.Errorf("hook ended after %v, SIGTERM came after %v", hook, when(w, "TERM main"))
		}
		if note, there := w.noted(); !there || !note.Recorded || note.Ended {
			t.Errorf("the journal has %+v, want a kill that is recorded and not finished", note)
		}
	})
}

// A call before Run waits for it. A call after its end does not hang, and kills nobody.
func TestCallsBeforeAndAfterRun(t *testing.T) {
	in(t, podSpec{grace: 30}, func(t *testing.T, w *world) {
		k, v := w.made(), w.victim(1)
		ctx, end := context.WithCancel(w.ctx)
		time.AfterFunc(time.Second, func() { k.Run(ctx) })
		w.must(k.SaveKill(v.Kill))
		if note, _ := w.noted(); time.Since(w.began) != time.Second || !note.EvictedAt.Equal(v.EvictedAt) {
			t.Errorf("saved %+v after %v", note, time.Since(w.began))
		}
		end()
		pause(w.ctx, time.Second)
		for _, err := range []error{k.SaveKill(v.Kill), k.RemoveKill(uid), k.Kill(w.ctx, v)} {
			if !errors.Is(err, errEnded) {
				t.Errorf("after the end: %v, want %v", err, errEnded)
			}
		}
		if _, there := w.noted(); !there || !w.cri.Running(uid) {
			t.Errorf("in the journal: %v, running: %v", there, w.cri.Running(uid))
		}
	})
}

func TestADryRunTellsNothingThatAFormerEvictdDecided(t *testing.T) {
	in(t, podSpec{grace: 30}, func(t *testing.T, w *world) {
		w.dryRun = true
		v := w.victim(1)
		note := v.Kill
		note.Ended, note.Stopping = true, true
		w.must(w.SaveKill(note))
		w.start()
		k := w.made()
		if left := k.Restore([]victim.Kill{note}); len(left) != 0 {
			t.Errorf("%+v is to be finished, want only its record", left)
		}
		go k.Run(w.ctx)
		pause(w.ctx, time.Minute)
		if w.asked.patches != 0 || !w.cri.Running(uid) {
			t.Errorf("told %d times in a dry run", w.asked.patches)
		}
		w.change(func() { w.dryRun = false })
		pause(w.ctx, time.Minute)
		if _, there := w.noted(); there || len(w.patches) != 1 || !evicted(w) {
			t.Errorf("%d patches when it is over, status %+v", len(w.patches), w.status())
		}
	})
}

// Where the clocks of node and API server differ a copy looked younger than its annotation,
// and was ended.
func TestACopyOfAnEvictedPodIsNotEvicted(t *testing.T) {
	for _, ago := range []time.Duration{-time.Hour, time.Hour} {
		in(t, podSpec{grace: 30}, func(t *testing.T, w *world) {
			w.pod.Annotations = map[string]string{victim.AnnotationEvicted: w.pod.CreationTimestamp.Add(ago).Format(time.RFC3339)}
			w.killer()
			pause(w.ctx, time.Minute)
			if w.asked.patches != 0 || !w.cri.Running(uid) {
				t.Errorf("the API server was told %d times", w.asked.patches)
			}
		})
	}
}

// A pod that a former evictd had stopped long ago, and that its kubelet had restarted, was
// ended when an evictd came up again, with the node well.
func TestAPodThatRunsAgainForLongIsLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		ended, runs bool
		patches     int
	}{
		"it runs":                        {true, true, 0},
		"it has ended":                   {true, false, 1},
		"it was being stopped, and runs": {false, true, 0},
		"it was being stopped, and has ended now": {false, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30, noRuns: !c.runs}, func(t *testing.T, w *world) {
				note := w.victim(1).Kill
				note.ContainerIDs, note.Stopping, note.Ended, note.GraceEnds = []string{"of-then"}, true, c.ended, time.Now().Add(-time.Hour)
				w.must(w.SaveKill(note))
				w.start()
				k := w.made()
				if left := k.Restore([]victim.Kill{note}); len(left) == 0 == !c.ended {
					t.Errorf("%+v is to be judged", left)
				}
				go k.Run(w.ctx)
				pause(w.ctx, 10*time.Second) // whatever the judge waits for
				if !c.ended {
					w.must(k.RemoveKill(note.UID))
				}
				pause(w.ctx, time.Minute)
				if _, there := w.noted(); there || len(w.patches) != c.patches || w.cri.Running(uid) != c.runs {
					t.Errorf("%d patches, want %d; runs: %v, noted: %v", len(w.patches), c.patches, w.cri.Running(uid), there)
				}
			})
		})
	}
}

// A report that was being sent when a reload made it a dry run went on, and ended the pod that the
// kubelet had restarted meanwhile.
func TestADryRunStopsAReportUnderWay(t *testing.T) {
	in(t, podSpec{grace: 30, restarts: true}, func(t *testing.T, w *world) {
		w.fails = errRefused
		w.start()
		k, _ := w.killer()
		v := w.victim(1)
		w.must(k.SaveKill(v.Kill))
		w.must(k.Kill(w.ctx, v))
		w.change(func() { w.dryRun = true })
		pause(w.ctx, 10*time.Second)
		w.change(func() { w.fails = nil })
		pause(w.ctx, time.Minute)
		if len(w.patches) != 0 || !w.cri.Running(uid) {
			t.Errorf("%d patches in a dry run; runs: %v", len(w.patches), w.cri.Running(uid))
		}
	})
}

func TestPodsThatAreLeftAlone(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(p *v1.Pod)
		noRuns bool
		grace  int64
		stops  int
	}{
		"a mirror pod":      {set: func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} }, grace: 1},
		"one that ended":    {set: func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, noRuns: true, grace: 1},
		"one being deleted": {set: func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, grace: 5, stops: 1},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30, noRuns: c.noRuns}, func(t *testing.T, w *world) {
				c.set(w.pod)
				k, _ := w.killer()
				v := w.victim(c.grace)
				w.must(k.SaveKill(v.Kill))
				if err := k.Kill(w.ctx, v); err != nil {
					t.Error(err)
				}
				pause(w.ctx, time.Minute)
				if n := len(w.cri.Calls(fakecri.StopContainer)); w.asked.patches != 0 || n != c.stops {
					t.Errorf("the API server was told %d times, %d containers were stopped, want none and %d", w.asked.patches, n, c.stops)
				}
				w.must(k.RemoveKill(uid))
				if note, there := w.noted(); there {
					t.Errorf("the journal still has %+v", note)
				}
			})
		})
	}
}

func TestAPodThatIsGoneNeedsNoRecord(t *testing.T) {
	for name, next := range map[string]func(p *v1.Pod) *v1.Pod{
		"it was deleted":            func(*v1.Pod) *v1.Pod { return nil },
		"another one has its name":  func(p *v1.Pod) *v1.Pod { p.UID = "uid-other"; return p },
		"it has ended by itself":    func(p *v1.Pod) *v1.Pod { p.Status.Phase = v1.PodSucceeded; return p },
		"somebody deletes it as we": func(p *v1.Pod) *v1.Pod { p.DeletionTimestamp = &metav1.Time{Time: time.Now()}; return p },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: time.Second}}, func(t *testing.T, w *world) {
				w.policy = true
				k, _ := w.killer()
				v := w.victim(3)
				w.change(func() { w.pod = next(w.pod) })
				if _, err := w.evict(k, v); err != nil {
					t.Error(err)
				}
				pause(w.ctx, 2*apiSilentFor)
				if _, there := w.noted(); there || w.asked.patches > 1 || len(w.patches) != 0 {
					t.Errorf("asked %d times, %d patches, in the journal: %v", w.asked.patches, len(w.patches), there)
				}
			})
		})
	}
}

// A load balancer that has no API server behind it answers with pages: its 404 was taken for
// a pod that is gone, and the eviction was recorded nowhere.
func TestAPageOfALoadBalancerIsNoAnswer(t *testing.T) {
	for _, code := range []int{http.StatusNotFound, http.StatusForbidden, http.StatusBadGateway} {
		in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: time.Second}}, func(t *testing.T, w *world) {
			w.fails = apierrors.NewGenericServerResponse(code, "PATCH", schema.GroupResource{Resource: "pods"}, "cart", "<html>", 0, true)
			k, _ := w.killer()
			if _, err := w.evict(k, w.victim(1)); err != nil {
				t.Errorf("%d: %v", code, err)
			}
			pause(w.ctx, 2*refusedFor)
			w.change(func() { w.fails = nil })
			pause(w.ctx, 2*maxRetry)
			if !evicted(w) {
				t.Errorf("%d: the API server does not have it, status %+v", code, w.status())
			}
		})
	}
}

func TestARefusalSaysWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want []string
	}{
		"a verb": {
			err:  statusError(http.StatusForbidden, `pods "cart" is forbidden: User "system:serviceaccount:evictd:evictd" cannot patch resource "pods/status" in API group "" in the namespace "shop"`),
			want: []string{"shop/cart", "must have the verb patch for pods/status"},
		},
		"a rule of the policy": {
			err:  denied("the status message must name the starved resource"),
			want: []string{"shop/cart", "the admission policy evictd-own-node denies it: the status message must name the starved resource"},
		},
		"a rule with a reason": {
			err:  statusError(http.StatusForbidden, `pods "cart" is forbidden: ValidatingAdmissionPolicy 'evictd-own-node' with binding 'b' denied request: the pod is on node "a", the token is for "b"`),
			want: []string{"evictd-own-node denies it: the pod is on node \"a\""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30, restarts: true, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
				w.fails = c.err
				k, _ := w.killer()
				_, err := w.evict(k, w.victim(1))
				for _, want := range c.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("error %v, want %q in it", err, want)
					}
				}
				if ended := when(w, "main ended"); ended < 0 || ended > time.Second {
					t.Errorf("ended after %v, want it at once all the same", ended)
				}
				// It is nobody's to fight with the kubelet over a right for ever.
				pause(w.ctx, 2*refusedFor)
				before := w.kubelet.restarts
				pause(w.ctx, refusedFor)
				if _, there := w.noted(); there || w.kubelet.restarts != before || !strings.Contains(w.log.String(), "refuses the eviction") || w.refusals != 1 {
					t.Errorf("in the journal: %v, %d restarts more, told of %d times", there, w.kubelet.restarts-before, w.refusals)
				}
			})
		})
	}
}

// A message to an API server whose answer is lost may have arrived.
func TestAnEvictionThatTheAPIServerHadAllAlongIsNoFailure(t *testing.T) {
	in(t, podSpec{grace: 30, preStop: 8 * time.Second, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.policy = true
		k, _ := w.killer()
		k.teller.api = &loses{world: w, n: 1}
		if _, err := w.evict(k, w.victim(30)); err != nil {
			t.Error(err)
		}
		if when(w, "TERM main") < 8*time.Second {
			t.Error("the hook was cut short")
		}
		pause(w.ctx, time.Minute)
		if len(w.patches) != 1 || !evicted(w) || !strings.Contains(w.log.String(), "API server has the eviction") {
			t.Errorf("%d patches, status %+v", len(w.patches), w.status())
		}
	})
}

// While the API server was away the pod died by evictd, and the kubelet was the first to say
// so: what a strict policy then does not let through must not be taken for recorded.
func TestARecordThatCameTooLateIsReported(t *testing.T) {
	in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.fails = errRefused
		k, _ := w.killer()
		if _, err := w.evict(k, w.victim(1)); err != nil {
			t.Error(err)
		}
		w.change(func() { w.pod.Status.Phase, w.fails = v1.PodFailed, denied(endedAlready) })
		pause(w.ctx, 10*time.Second)
		if _, there := w.noted(); there || !strings.Contains(w.log.String(), "which is not recorded") || strings.Contains(w.log.String(), "API server has the eviction") {
			t.Errorf("in the journal: %v", there)
		}
	})
}

// A hard threshold that is met while a soft victim ends.
func TestAShortenedGraceEndsASoftVictimAtOnce(t *testing.T) {
	in(t, podSpec{grace: 60, preStop: 50 * time.Second, main: fakecri.Container{DiesAfter: fakecri.IgnoresTerm}}, func(t *testing.T, w *world) {
		k, _ := w.killer()
		v := w.victim(60)
		w.must(k.SaveKill(v.Kill))
		first := make(chan error, 1)
		go func() { first <- k.Kill(w.ctx, v) }()
		pause(w.ctx, 5*time.Second)
		v.GraceSeconds = 1
		began := time.Now()
		w.must(k.SaveKill(v.Kill))
		if err := k.Kill(w.ctx, v); err != nil {
			t.Error(err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*time.Second || len(w.patches) != 1 {
			t.Errorf("took %v, %d patches, want 1 s and one", took, len(w.patches))
		}
	})
}

// Whatever of a pod is full or forbidden, its eviction gets through in the form that is not.
func TestNoPodIsImmune(t *testing.T) {
	tooLong := statusError(http.StatusUnprocessableEntity, `Pod "cart" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes`)
	webhook := func(why string) error {
		return statusError(http.StatusInternalServerError, `Internal error occurred: failed calling webhook "pods.example.com": `+why)
	}
	refusing := func(err error, forms ...string) func(string) error {
		return func(form string) error {
			if slices.Contains(forms, form) {
				return err
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		refuses func(form string) error
		within  time.Duration
		by      string // what has the kubelet end the pod
	}{
		"its annotations are full":         {refusing(tooLong, "annotated"), time.Second, "patched"},
		"no condition more is let":         {refusing(statusError(http.StatusForbidden, "admission webhook denied the request"), "annotated", "labeled"), time.Second, "patched"},
		"a webhook refuses the status":     {refusing(statusError(http.StatusForbidden, "admission webhook denied the request"), "annotated", "labeled", "bare"), 70 * time.Second, "deleted"},
		"a webhook hangs":                  {refusing(webhook("context deadline exceeded"), "annotated", "labeled", "bare"), 70 * time.Second, "deleted"},
		"the pod is as large as it may be": {refusing(statusError(http.StatusInternalServerError, "etcdserver: request is too large"), "annotated", "labeled", "bare"), 70 * time.Second, "deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30, restarts: true, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
				w.refuses = c.refuses
				k, _ := w.killer()
				_, _ = w.evict(k, w.victim(1))
				pause(w.ctx, 2*time.Minute)
				if at := when(w, c.by); at < 0 || at > c.within {
					t.Errorf("%s after %v, want within %v", c.by, at, c.within)
				}
				if _, there := w.noted(); there || w.cri.Running(uid) || w.refusals != 0 || len(w.events) != 1 {
					t.Errorf("in the journal: %v, runs: %v, %d refusals, %d events", there, w.cri.Running(uid), w.refusals, len(w.events))
				}
			})
		})
	}
}

// Without the right to delete a refusal is told and the containers stay stopped, and nothing asks for a deletion.
func TestAPodWhoseEvictionIsRefusedIsNotDeletedByDefault(t *testing.T) {
	in(t, podSpec{grace: 30, restarts: true, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.refuses = func(form string) error {
			if form == "deleted" {
				t.Error("a deletion was asked for")
			}
			return statusError(http.StatusForbidden, "admission webhook denied the request")
		}
		k, _ := w.killer()
		err, _ := w.evict(k, w.victim(1))
		pause(w.ctx, 2*time.Minute)
		if when(w, "deleted") >= 0 || w.refusals != 1 || evicted(w) {
			t.Errorf("%v: %d refusals, status %+v, want one that is told, and no deletion", err, w.refusals, w.status())
		}
		if log := w.log.String(); !strings.Contains(log, "API server refuses the eviction, giving up") || strings.Contains(log, "delete pod") {
			t.Errorf("log %s", log)
		}
	})
}

// An API server that comes back from an outage refuses for some seconds what it knows no role for.
func TestARefusalCountsFromTheFirst(t *testing.T) {
	in(t, podSpec{grace: 30, restarts: true, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.fails = errRefused
		k, _ := w.killer()
		_, _ = w.evict(k, w.victim(1))
		pause(w.ctx, 2*refusedFor)
		w.change(func() { w.fails = statusError(http.StatusForbidden, "RBAC: clusterrole not found") })
		pause(w.ctx, 30*time.Second)
		w.change(func() { w.fails = nil })
		pause(w.ctx, 30*time.Second)
		if !evicted(w) || w.refusals != 0 || len(w.events) != 1 {
			t.Errorf("status %+v, %d refusals, %d events", w.status(), w.refusals, len(w.events))
		}
	})
}

// The event is kept as the status is, however long the API server is away.
func TestTheEventOutlivesAnyOutage(t *testing.T) {
	in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.failsEvents = errRefused
		k, _ := w.killer()
		v := w.victim(1)
		v.Annotations = map[string]string{"starved_resource": "memory"}
		_, _ = w.evict(k, v)
		pause(w.ctx, 3*time.Hour)
		if note, there := w.noted(); !there || !note.Recorded || note.Announced {
			t.Errorf("the journal has %+v, want a recorded eviction without its event", note)
		}
		w.change(func() { w.failsEvents = nil })
		pause(w.ctx, 10*time.Second)
		if _, there := w.noted(); there || len(w.events) != 1 {
			t.Fatalf("in the journal: %v, %d events", there, len(w.events))
		}
		want := &v1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: w.events[0].Name, Annotations: v.Annotations},
			InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "cart", UID: uid},
			Reason:         "Evicted", Message: v.Message, Type: "Warning", Count: 1, FirstTimestamp: metav1.NewTime(v.EvictedAt), LastTimestamp: metav1.NewTime(v.EvictedAt),
			Source: v1.EventSource{Component: "evictd", Host: "node-1"}, ReportingController: "evictd", ReportingInstance: "node-1",
		}
		if diff := cmp.Diff(want, w.events[0]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A Job's pod was evicted and deleted, and its owner could not see why.
func TestTheControllerHasAnEventThatSaysWhy(t *testing.T) {
	job := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "report", UID: "uid-report", Controller: new(true)}
	const text = "Pod cart was evicted from node node-1: The node was low on resource: memory."
	with := func(change func(*metav1.OwnerReference)) metav1.OwnerReference {
		o := job
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		owners      []metav1.OwnerReference
		annotations map[string]string
		message     string // of the pod's event, the usual one if empty
		ends        string // of the owner's, no event if empty
	}{
		"a job":                {[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "other"}, job}, nil, "", text + " "},
		"with why":             {[]metav1.OwnerReference{job}, map[string]string{"evictd.io/why": "uses 1Gi without a request", "evictd.io/record": "1-2", "starved_resource": "memory"}, "", text + " Why: uses 1Gi without a request"},
		"of a hundred kB":      {[]metav1.OwnerReference{job}, map[string]string{"evictd.io/why": "uses 1Gi"}, "The node was low on resource: memory. " + strings.Repeat("Container main was using 3Gi. ", 3000), "Container main was using 3Gi. Why: uses 1Gi"},
		"no owner":             {},
		"no controller":        {owners: []metav1.OwnerReference{with(func(o *metav1.OwnerReference) { o.Controller = nil })}},
		"a kind of others":     {owners: []metav1.OwnerReference{with(func(o *metav1.OwnerReference) { o.Kind = "Workflow" })}},
		"a group of others":    {owners: []metav1.OwnerReference{with(func(o *metav1.OwnerReference) { o.APIVersion = "example.com/v1" })}},
		"a name of a megabyte": {owners: []metav1.OwnerReference{with(func(o *metav1.OwnerReference) { o.Name = strings.Repeat("x", 1<<20) })}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
				w.pod.OwnerReferences, w.dryRun = c.owners, true
				k, _ := w.killer()
				v := w.victim(1)
				if v.Annotations = c.annotations; c.message != "" {
					v.Message = c.message
				}
				w.must(k.SaveKill(v.Kill))
				w.fails = statusError(http.StatusTooManyRequests, "too many requests")
				go func() { _ = k.Kill(w.ctx, v) }()
				pause(w.ctx, time.Minute)
				w.change(func() {
					if w.events != nil {
						t.Error("an event in a dry run")
					}
					w.dryRun = false
				})
				pause(w.ctx, time.Minute)
				w.change(func() {
					if w.events != nil {
						t.Error("an event before the eviction")
					}
					w.fails = nil
				})
				pause(w.ctx, time.Minute)
				all := w.ofController()
				if c.ends == "" {
					if len(w.events) != 1 || len(all) != 0 {
						t.Errorf("%d events, about the controller %+v", len(w.events), all)
					}
					return
				}
				if len(all) != 1 || !strings.HasPrefix(all[0].Message, text) || !strings.HasSuffix(all[0].Message, c.ends) || len(all[0].Message) > 9000 {
					t.Fatalf("events about the controller %+v, want one with %q", all, c.ends)
				}
				got := all[0]
				if want := (v1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: "report", UID: "uid-report"}); got.InvolvedObject != want {
					t.Errorf("it is about %+v, want %+v", got.InvolvedObject, want)
				}
				if got.Annotations["evictd.io/why"] != c.annotations["evictd.io/why"] || got.Annotations["evictd.io/record"] != c.annotations["evictd.io/record"] || got.Annotations["starved_resource"] != "" {
					t.Errorf("annotations %v", got.Annotations)
				}
			})
		})
	}
}

// evictd was killed between the eviction and its event, and the pod is gone.
func TestTheNextEvictdTellsTheController(t *testing.T) {
	in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "cart", UID: "uid-set", Controller: new(true)}}
		w.failsEvents = errRefused
		k, end := w.killer()
		_, _ = w.evict(k, w.victim(1))
		end()
		pause(w.ctx, time.Minute)
		note, _ := w.noted()
		w.change(func() { w.failsEvents, w.pod = nil, nil })
		k = w.made()
		k.Restore([]victim.Kill{note})
		go k.Run(w.ctx)
		pause(w.ctx, time.Minute)
		if all := w.ofController(); len(all) != 1 || all[0].InvolvedObject.Kind != "StatefulSet" {
			t.Errorf("events about the controller: %+v", all)
		}
	})
}

// An API server that had too much to do was sent the event of each node again each 5 s at most.
func TestARejectedEventIsSentSeldom(t *testing.T) {
	tooMany := apierrors.NewTooManyRequests("the server has received too many requests", 1)
	for name, c := range map[string]struct {
		fails error
		most  int // requests within an hour
	}{
		"429":                        {tooMany, 130},
		"429 for minutes":            {apierrors.NewTooManyRequests("later", 40), 95},
		"429 for longer than a day":  {apierrors.NewTooManyRequests("later", 1<<30), 61},
		"503":                        {statusError(http.StatusServiceUnavailable, "starting"), 130},
		"504 of a proxy":             {apierrors.NewGenericServerResponse(http.StatusGatewayTimeout, "post", schema.GroupResource{}, "", "<html>", 0, true), 130},
		"500, etcd is slow":          {statusError(http.StatusInternalServerError, "etcdserver: request timed out"), 130},
		"no answer costs it nothing": {errRefused, 1500},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
				w.failsEvents = c.fails
				k, _ := w.killer()
				_, _ = w.evict(k, w.victim(1))
				pause(w.ctx, time.Hour)
				w.change(func() {
					if w.asked.events < 20 || w.asked.events > c.most {
						t.Errorf("%d requests in an hour, want %d at most", w.asked.events, c.most)
					}
					w.failsEvents = nil
				})
				pause(w.ctx, 2*maxEventRetry)
				if _, there := w.noted(); there || len(w.events) != 1 {
					t.Errorf("in the journal: %v, %d events", there, len(w.events))
				}
			})
		})
	}
}

// The event went beside the eviction, which the kubelet waits for, and not after it.
func TestTheEventComesAfterTheEviction(t *testing.T) {
	in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.fails = statusError(http.StatusTooManyRequests, "too many requests")
		k, _ := w.killer()
		_, _ = w.evict(k, w.victim(1))
		pause(w.ctx, time.Minute)
		w.change(func() {
			if w.asked.events > 0 || w.asked.patches < 10 {
				t.Errorf("%d requests for the event, %d for the eviction that is not accepted", w.asked.events, w.asked.patches)
			}
			w.fails = nil
		})
		pause(w.ctx, 2*maxRetry)
		if len(w.events) != 1 || !evicted(w) {
			t.Errorf("%d events, evicted: %t", len(w.events), evicted(w))
		}
	})
}

func TestAnEventThatIsRefusedIsCountedAsLost(t *testing.T) {
	in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
		w.failsEvents = statusError(http.StatusForbidden, `cannot create resource "events"`)
		k, _ := w.killer()
		_, _ = w.evict(k, w.victim(1))
		pause(w.ctx, 2*refusedFor)
		if _, there := w.noted(); there || k.LostEvents() != 1 || !strings.Contains(w.log.String(), "event is lost") {
			t.Errorf("in the journal: %v, %d lost", there, k.LostEvents())
		}
	})
}

// A pod that has just succeeded is not made to have failed.
func TestAPodThatHasJustSucceededStaysSo(t *testing.T) {
	for name, seen := range map[string]bool{"the API server has told of it": true, "it has not yet": false} {
		t.Run(name, func(t *testing.T) {
			in(t, podSpec{grace: 30, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
				k, _ := w.killer()
				v := w.victim(1)
				w.change(func() {
					if !seen {
						w.stale = w.pod.DeepCopy()
						w.stale.ResourceVersion = "7"
						time.AfterFunc(200*time.Millisecond, func() { w.change(func() { w.stale = nil }) })
					}
					w.pod.Status.Phase, w.pod.ResourceVersion = v1.PodSucceeded, "8"
				})
				_, _ = w.evict(k, v)
				pause(w.ctx, 10*time.Second)
				if w.status().Phase != v1.PodSucceeded || len(w.patches) != 0 {
					t.Errorf("status %+v, %d patches", w.status(), len(w.patches))
				}
			})
		})
	}
}

// A kubelet on a saturated node writes late that it ends a pod, whose hook is running already.
func TestAHookDoesNotRunTwice(t *testing.T) {
	in(t, podSpec{grace: 60, preStop: 20 * time.Second}, func(t *testing.T, w *world) {
		w.kubelet.writesAfter = 8 * time.Second
		k, _ := w.killer()
		if _, err := w.evict(k, w.victim(60)); err != nil {
			t.Error(err)
		}
		if hook := when(w, "preStop ended"); hook < 20*time.Second || when(w, "TERM main") < hook {
			t.Errorf("hook ended after %v, SIGTERM came after %v", hook, when(w, "TERM main"))
		}
		if w.dryRuns != 0 {
			t.Errorf("the API server was asked by %d dry runs", w.dryRuns)
		}
	})
}

// A pod of 200 containers, each of which uses more than it asked for, has a message that no policy lets pass.
func TestTextsAreAsLongAsThePoliciesLetThem(t *testing.T) {
	const sentence = "Container main-container was using 2097152Ki, request is 0, has larger consumption of memory. "
	k := victim.Kill{
		Message:     "The node was low on resource: memory. " + strings.Repeat(sentence, 200),
		Annotations: map[string]string{"offending_containers": strings.Repeat("main-container,", 2000), victim.AnnotationWhy: "uses 1Gi"},
		Record:      "r1",
	}
	body, err := patchOf(k, annotated, "")
	if err != nil {
		t.Fatal(err)
	}
	var p patch
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatal(err)
	}
	e := eventOf(k, "node-1")
	for name, text := range map[string]string{"status": p.Status.Message, "condition": p.Status.Conditions[0].Message, "event": e.Message} {
		if len(text) > maxTextBytes || len(text) < maxTextBytes-len(sentence) || !strings.HasSuffix(text, "of memory. ") {
			t.Errorf("message of the %s has %d bytes and ends with %q", name, len(text), text[len(text)-20:])
		}
	}
	if p.Metadata.Annotations[victim.AnnotationWhy] != "uses 1Gi" || e.Annotations[victim.AnnotationWhy] != "uses 1Gi" || p.Metadata.Annotations["offending_containers"] != "" {
		t.Errorf("the owner is told %v", p.Metadata.Annotations)
	}
	if of := e.Annotations["offending_containers"]; len(of) > maxTextBytes || !strings.HasSuffix(of, "main-container,") {
		t.Errorf("annotation of %d bytes", len(of))
	}
}

func TestAnEvictionOfEvictdsIsItsOwn(t *testing.T) {
	in(t, podSpec{grace: 30}, func(t *testing.T, w *world) {
		k, end := w.killer()
		v := w.victim(1)
		if _, err := w.evict(k, v); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			uid, message string
			want         bool
		}{{v.UID, v.Message, true}, {v.UID, v.Message[:9], true}, {v.UID, "The kubelet's", false}, {"another", v.Message, false}} {
			if got := k.Wrote(c.uid, c.message); got != c.want {
				t.Errorf("%q of %s: %t", c.message, c.uid, got)
			}
		}
		end()
		synctest.Wait()
		if !k.Wrote("another", "") {
			t.Error("what is not known any more is another's")
		}
	})
}
