package kubernetes

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// A forgery has the owner of a pod write marks that look like evictd's.
type forgery struct {
	name string
	set  func(p *v1.Pod)
}

// forgeries returns all marks with all values: the past is that of a template, with which each replacement is made.
func forgeries() (all []forgery) {
	annotate := func(value string) func(*v1.Pod) {
		return func(p *v1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, victim.AnnotationEvicted, value) }
	}
	label := func(value string) func(*v1.Pod) {
		return func(p *v1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, victim.AnnotationEvicted, value) }
	}
	for of, at := range map[string]time.Time{
		"the past": time.Now().Add(-time.Hour), "the future": time.Now().Add(time.Hour), "another pod evicted now": time.Now().Add(time.Nanosecond),
	} {
		annotation, labeled := annotate(at.UTC().Format(time.RFC3339Nano)), label(at.UTC().Format(labelTime))
		all = append(all, forgery{"annotation of " + of, annotation}, forgery{"label of " + of, labeled},
			forgery{"both of " + of, func(p *v1.Pod) { annotation(p); labeled(p) }})
	}
	return append(all, forgery{"a garbled annotation", annotate(strings.Repeat("x", 200))}, forgery{"a garbled label", label("now")},
		forgery{"no mark", func(p *v1.Pod) {
			delete(p.Annotations, victim.AnnotationEvicted)
			delete(p.Labels, victim.AnnotationEvicted)
		}})
}

// A pod made with the label of 2030 was restarted 391 times in ten minutes and never evicted when
// its kubelet wrote over the eviction; with the kubelet down, its soft eviction took 300 s.
func TestAPodThatItsOwnerMarkedIsEvictedAsAnyOther(t *testing.T) {
	for name, play := range map[string]func(t *testing.T, w *world, v victim.Victim){
		"the kubelet is well": func(t *testing.T, w *world, v victim.Victim) {
			k, _ := w.killer()
			if took, err := w.evict(k, v); err != nil || took > 1500*time.Millisecond {
				t.Errorf("took %v, error %v", took, err)
			}
			if len(w.patches) != 1 || w.kubelet.restarts != 0 {
				t.Errorf("%d patches, %d restarts", len(w.patches), w.kubelet.restarts)
			}
		},
		"the kubelet is down": func(t *testing.T, w *world, v victim.Victim) {
			w.kubelet.down = true
			k, _ := w.killer()
			if took, err := w.evict(k, v); err != nil || took > 2500*time.Millisecond || len(w.patches) != 1 {
				t.Errorf("took %v, error %v, %d patches, want 2 s and one", took, err, len(w.patches))
			}
		},
		"the answer is lost": func(t *testing.T, w *world, v victim.Victim) {
			k, _ := w.killer()
			k.teller.api = &loses{world: w, n: 1}
			if _, err := w.evict(k, v); err != nil {
				t.Error(err)
			}
		},
		"the answer is lost, the kubelet writes over it": func(t *testing.T, w *world, v victim.Victim) {
			w.kubelet.deaf = true
			k, _ := w.killer()
			k.teller.api = &loses{world: w, n: 1}
			_, _ = w.evict(k, v)
			w.change(func() { w.kubelet.deaf = false })
		},
		"the kubelet writes over it": func(t *testing.T, w *world, v victim.Victim) {
			w.kubelet.deaf = true
			k, _ := w.killer()
			_, _ = w.evict(k, v)
			pause(w.ctx, 20*time.Second)
			w.change(func() { w.kubelet.deaf = false })
		},
		"the kubelet writes over it, the next evictd": func(t *testing.T, w *world, v victim.Victim) {
			w.kubelet.deaf = true
			k, end := w.killer()
			_, _ = w.evict(k, v)
			end()
			pause(w.ctx, 1500*time.Millisecond)
			w.change(func() { w.kubelet.deaf = false })
			w.killer()
		},
	} {
		for grace, seconds := range map[string]int64{"hard": 1, "soft": 300} {
			for when, c := range map[string]struct{ after, label, limit bool }{
				"before": {}, "before and after": {after: true},
				// No condition tells of these two.
				"before, by a label alone": {label: true}, "before, for a limit of its own": {limit: true},
			} {
				if (c.label || c.limit) && strings.HasSuffix(name, "the next evictd") {
					continue // the pod is a candidate again
				}
				t.Run(fmt.Sprintf("%s, %s, %s", name, grace, when), func(t *testing.T) {
					for _, f := range forgeries() {
						in(t, podSpec{grace: 300, restarts: true, main: fakecri.Container{DiesAfter: 100 * time.Millisecond}}, func(t *testing.T, w *world) {
							w.policy = true
							if f.set(w.pod); c.after {
								w.owner = f.set
							}
							if c.label {
								w.refuses = func(form string) error {
									if form == "bare" {
										return nil
									}
									return statusError(http.StatusForbidden, "admission webhook denied the request")
								}
							}
							v := w.victim(seconds)
							v.Limit = c.limit
							play(t, w, v)
							pause(w.ctx, 2*time.Minute)
							if p := w.pods()[0]; p.Status.Phase != v1.PodFailed || (disruption(p).Message == "") != (c.label || c.limit) || w.cri.Running(uid) || w.kubelet.restarts > 30 {
								t.Errorf("%d restarts, running %v, status %+v", w.kubelet.restarts, w.cri.Running(uid), p.Status)
							}
							if note, there := w.noted(); there {
								t.Errorf("the journal still has %+v", note)
							}
							if t.Failed() {
								t.Logf("forged: %s", f.name)
							}
						})
					}
				})
			}
		}
	}
}

// The journal is lost with the run directory, and nothing but the API server knows of the eviction.
func TestAMarkWithoutARecordMakesNoPodImmune(t *testing.T) {
	by := func(kind v1.PodConditionType, status v1.ConditionStatus, reason string) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: status, Reason: reason, Message: "The node was low on resource: memory. ", LastTransitionTime: metav1.Now()}
	}
	for name, set := range map[string]func(p *v1.Pod){
		"and the pod runs":                   func(*v1.Pod) {},
		"and the status says that it failed": func(p *v1.Pod) { p.Status.Phase, p.Status.Reason = v1.PodFailed, victim.ReasonEvicted },
		"and another controller disrupts it": func(p *v1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, by(v1.DisruptionTarget, v1.ConditionTrue, "PreemptionByScheduler"))
		},
		"and a disruption is over": func(p *v1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, by(v1.DisruptionTarget, v1.ConditionFalse, v1.PodReasonTerminationByKubelet))
		},
		"and the status alone, by somebody else": func(p *v1.Pod) { p.Status.Phase = v1.PodFailed },
	} {
		for grace, seconds := range map[string]int64{"hard": 1, "soft": 300} {
			t.Run(name+", "+grace, func(t *testing.T) {
				for _, f := range forgeries() {
					in(t, podSpec{grace: 300}, func(t *testing.T, w *world) {
						f.set(w.pod)
						set(w.pod)
						w.kubelet.down = true
						k, _ := w.killer()
						pause(w.ctx, time.Minute)
						if w.asked.patches != 0 || !w.cri.Running(uid) {
							t.Fatalf("%s: ended without a reason", f.name)
						}
						if took, err := w.evict(k, w.victim(seconds)); err != nil || took > 2500*time.Millisecond || len(w.patches) != 1 {
							t.Errorf("%s: took %v, error %v, %d patches, want 2 s and one", f.name, took, err, len(w.patches))
						}
					})
				}
			})
		}
	}
}

// A controller that may write the status can say that the pod has ended: with the kubelet down, that costs a soft eviction its
// grace period, and no more.
func TestAForeignStatusDelaysNoPodForLongerThanItsGrace(t *testing.T) {
	for name, set := range map[string]func(p *v1.Pod){
		"it has succeeded": func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded },
		"it is not ready, for it has failed": func(p *v1.Pod) {
			p.Status.Conditions[0].Status, p.Status.Conditions[0].Reason = v1.ConditionFalse, "PodFailed"
		},
	} {
		for _, seconds := range []int64{1, 30} {
			in(t, podSpec{grace: 300}, func(t *testing.T, w *world) {
				set(w.pod)
				w.kubelet.down, w.policy = true, true
				k, _ := w.killer()
				if took, err := w.evict(k, w.victim(seconds)); err != nil || took > time.Duration(seconds+1)*time.Second {
					t.Errorf("%s: took %v of %d s, error %v", name, took, seconds, err)
				}
			})
		}
	}
}

// A pod that a former evictd had evicted, whose journal is lost, ends as it wants: chosen again, it is told once more, and its
// hook is not cut.
func TestAPodThatStillEndsIsNotEndedTwice(t *testing.T) {
	in(t, podSpec{grace: 60, preStop: 20 * time.Second}, func(t *testing.T, w *world) {
		w.policy = true
		first, end := w.killer()
		v := w.victim(60)
		go func() { _ = first.Kill(w.ctx, v) }()
		pause(w.ctx, 5*time.Second)
		end()
		w.change(func() { clear(w.journal) })
		k, _ := w.killer()
		if _, err := w.evict(k, w.victim(60)); err != nil {
			t.Error(err)
		}
		if hook := when(w, "preStop ended"); hook < 20*time.Second || when(w, "TERM main") < hook || strings.Count(strings.Join(w.reported(), " "), "preStop ended") != 1 {
			t.Errorf("hook ended after %v, SIGTERM came after %v", hook, when(w, "TERM main"))
		}
		if _, there := w.noted(); there || len(w.patches) > 2 {
			t.Errorf("%d patches, in the journal: %v", len(w.patches), there)
		}
	})
}

// An evictd died before it noted that the API server has the eviction, and the containers have ended since.
func TestAnEvictionThatIsNotNotedIsRecordedAfterTheEnd(t *testing.T) {
	in(t, podSpec{grace: 30, noRuns: true}, func(t *testing.T, w *world) {
		v := w.victim(1)
		w.pod.Status.Phase, w.pod.Annotations = v1.PodFailed, map[string]string{victim.AnnotationEvicted: v.EvictedAt.UTC().Format(time.RFC3339Nano)}
		v.Pod.API = w.pods()[0]
		k, _ := w.killer()
		if _, err := w.evict(k, v); err != nil {
			t.Error(err)
		}
		pause(w.ctx, 10*time.Second)
		if _, there := w.noted(); there || len(w.events) != 1 {
			t.Errorf("%d events, in the journal: %v", len(w.events), there)
		}
	})
}

// The API server took the eviction and sent it to evictd late: a hook that the kubelet had begun ran a second time.
func TestAnAPIServerThatSendsLateHasNoHookRunTwice(t *testing.T) {
	in(t, podSpec{grace: 60, preStop: 20 * time.Second}, func(t *testing.T, w *world) {
		w.stale, w.kubelet.writesAfter = w.pod.DeepCopy(), hookTimeout
		time.AfterFunc(hookTimeout, func() { w.change(func() { w.stale = nil }) })
		k, _ := w.killer()
		if took, err := w.evict(k, w.victim(60)); err != nil || took < 20*time.Second || took > 21*time.Second {
			t.Errorf("took %v, error %v", took, err)
		}
		if n := len(w.cri.Calls(fakecri.StopContainer)); n != 1 {
			t.Errorf("%d containers were stopped, want one, by the kubelet", n)
		}
	})
}
