package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/why/store"
)

// A graveyard is the API server of a node with evicted pods, and the records of evictd.
type graveyard struct {
	API

	began time.Time
	dir   string
	store *store.Store
	log   syncBuffer

	mu   sync.Mutex
	pods []*v1.Pod
	// deleted has the pods that were deleted, with the time since the beginning, asked the number of requests.
	deleted []string
	asked   int
	fails   error
	// replaced is a pod that is gone, which is not known here yet.
	replaced string
}

// add adds a pod that was evicted some time ago, after changes, and its record, unless change returns nil.
func (g *graveyard) add(t *testing.T, name string, ago time.Duration, change func(p *v1.Pod, d *decision.Decision) *decision.Decision) {
	t.Helper()
	at := time.Now().Add(-ago).Round(0).UTC()
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{victim.AnnotationEvicted: at.Format(time.RFC3339Nano)}},
		Status:     v1.PodStatus{Phase: v1.PodFailed, Reason: victim.ReasonEvicted},
	}
	d := &decision.Decision{Version: decision.Version, ID: decision.NewID(at), Kind: decision.KindEviction, Time: at, Victim: &decision.Victim{UID: string(p.UID), Pod: "shop/" + name}}
	if change != nil {
		d = change(p, d)
	}
	if d != nil {
		if err := g.store.Append(d); err != nil {
			t.Fatal(err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pods = append(g.pods, p)
}

func (g *graveyard) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// DeletePod implements API.
func (g *graveyard) DeletePod(_ context.Context, namespace, name string, uid types.UID, graceSeconds int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	if g.fails != nil {
		return g.fails
	}
	at := slices.IndexFunc(g.pods, func(p *v1.Pod) bool { return p.Namespace == namespace && p.Name == name && p.UID == uid })
	if name == g.replaced {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, name, errors.New("the UID in the precondition does not match"))
	}
	if at < 0 || graceSeconds < 1 {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
	}
	g.pods = slices.Delete(g.pods, at, at+1)
	g.deleted = append(g.deleted, fmt.Sprintf("%v %s", time.Since(g.began).Round(time.Hour), name))
	return nil
}

// removal runs a story with a Remover.
func removal(t *testing.T, after time.Duration, story func(t *testing.T, g *graveyard)) {
	synctest.Test(t, func(t *testing.T) {
		g := &graveyard{began: time.Now(), dir: t.TempDir()}
		g.store = store.New(store.Options{Dir: g.dir, MaxBytes: 16 << 20, MaxAge: 720 * time.Hour})
		r := &Remover{
			API: g, After: func() time.Duration { return after }, Log: slog.New(slog.NewTextHandler(&g.log, nil)),
			Evicted: func(uids []string) (map[string]time.Time, error) { return store.Evicted(g.dir, uids) },
			Pods: func() []*v1.Pod {
				g.mu.Lock()
				defer g.mu.Unlock()
				return slices.Clone(g.pods)
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		story(t, g)
		cancel()
		<-done
		if err := g.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (g *graveyard) wantDeleted(t *testing.T, want ...string) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if diff := cmp.Diff(want, g.deleted); diff != "" {
		t.Errorf("deleted (-want +got):\n%s\n%s", diff, &g.log)
	}
}

func TestEvictedPodsEnd(t *testing.T) {
	removal(t, 24*time.Hour, func(t *testing.T, g *graveyard) {
		g.add(t, "first", 20*time.Hour, nil)
		g.add(t, "second", 2*time.Hour, nil)
		g.add(t, "long-gone", 100*time.Hour, nil)
		time.Sleep(24 * time.Hour)
		g.wantDeleted(t, "0s long-gone", "4h0m0s first", "22h0m0s second")
	})
}

func TestEvictedPodsStayUnlessTheyAreToEnd(t *testing.T) {
	removal(t, 0, func(t *testing.T, g *graveyard) {
		for i := range 60 {
			g.add(t, fmt.Sprintf("old-%d", i), 100*time.Hour, nil)
		}
		time.Sleep(48 * time.Hour)
		g.wantDeleted(t)
	})
}

// Each case has a pod that is old enough, beside one that goes.
func TestNoPodGoesThatEvictdHasNotEvicted(t *testing.T) {
	type change = func(p *v1.Pod, d *decision.Decision) *decision.Decision
	for name, differs := range map[string]change{
		"without a record":             func(*v1.Pod, *decision.Decision) *decision.Decision { return nil },
		"the record is of a dry run":   func(_ *v1.Pod, d *decision.Decision) *decision.Decision { d.DryRun = true; return d },
		"the kubelet evicted it":       func(_ *v1.Pod, d *decision.Decision) *decision.Decision { d.Kind = decision.KindOther; return d },
		"the record is of another pod": func(_ *v1.Pod, d *decision.Decision) *decision.Decision { d.Victim.UID = "uid-another"; return d },
		"the record has its uid's beginning": func(p *v1.Pod, d *decision.Decision) *decision.Decision {
			p.UID = types.UID(strings.Repeat("u", 70) + "1")
			d.Victim.UID = strings.Repeat("u", 70) + "2"
			return d
		},
		"without a mark":                  func(p *v1.Pod, d *decision.Decision) *decision.Decision { p.Annotations = nil; return d },
		"the mark is of another eviction": func(p *v1.Pod, d *decision.Decision) *decision.Decision { d.Time = d.Time.Add(-time.Minute); return d },
		"the mark is its owner's": func(p *v1.Pod, d *decision.Decision) *decision.Decision {
			p.Annotations[victim.AnnotationEvicted] = "yes"
			return d
		},
		"it runs":                          func(p *v1.Pod, d *decision.Decision) *decision.Decision { p.Status.Phase = v1.PodRunning; return d },
		"it has succeeded":                 func(p *v1.Pod, d *decision.Decision) *decision.Decision { p.Status.Phase = v1.PodSucceeded; return d },
		"it has failed for another reason": func(p *v1.Pod, d *decision.Decision) *decision.Decision { p.Status.Reason = "NodeShutdown"; return d },
		"it is being deleted": func(p *v1.Pod, d *decision.Decision) *decision.Decision {
			p.DeletionTimestamp = &metav1.Time{}
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			removal(t, 24*time.Hour, func(t *testing.T, g *graveyard) {
				g.add(t, "other", 100*time.Hour, differs)
				g.add(t, "evicted", 99*time.Hour, nil)
				time.Sleep(10 * time.Minute)
				g.wantDeleted(t, "0s evicted")
			})
		})
	}
}

func TestPodsOfEachKindOfEvictionEnd(t *testing.T) {
	removal(t, 24*time.Hour, func(t *testing.T, g *graveyard) {
		g.add(t, "limit", 104*time.Hour, func(_ *v1.Pod, d *decision.Decision) *decision.Decision { d.Kind = decision.KindLimit; return d })
		g.add(t, "resumed", 103*time.Hour, func(_ *v1.Pod, d *decision.Decision) *decision.Decision { d.Kind = decision.KindResumed; return d })
		g.add(t, "labeled", 102*time.Hour, func(p *v1.Pod, d *decision.Decision) *decision.Decision {
			p.Annotations, p.Labels = nil, map[string]string{victim.AnnotationEvicted: d.Time.Format(labelTime)}
			return d
		})
		time.Sleep(10 * time.Minute)
		g.wantDeleted(t, "0s limit", "0s resumed", "0s labeled")
	})
}

func TestFiftyEvictedPodsAreKept(t *testing.T) {
	removal(t, 24*time.Hour, func(t *testing.T, g *graveyard) {
		for i := range 75 {
			g.add(t, fmt.Sprintf("pod-%d", i), time.Duration(75-i)*time.Minute, nil)
		}
		time.Sleep(time.Hour)
		var want []string
		for i := range 25 {
			want = append(want, fmt.Sprintf("0s pod-%d", i))
		}
		g.wantDeleted(t, want...)
	})
}

// A refusal costs a request at a time, not one for each pod.
func TestARefusedRemovalIsTriedAgainLater(t *testing.T) {
	removal(t, 24*time.Hour, func(t *testing.T, g *graveyard) {
		g.change(func() { g.fails = errors.New("denied by a policy") })
		for i := range 60 {
			g.add(t, fmt.Sprintf("pod-%d", i), 100*time.Hour, nil)
		}
		time.Sleep(time.Hour)
		g.change(func() {
			if g.asked < 30 || g.asked > 60 {
				t.Errorf("%d requests in an hour, want one in one to two minutes", g.asked)
			}
			g.fails = nil
		})
		time.Sleep(time.Hour)
		g.change(func() {
			if len(g.deleted) != 60 {
				t.Errorf("%d pods deleted after the refusal has ended, want all 60", len(g.deleted))
			}
		})
	})
}

func TestAPodThatIsGoneDoesNotHoldUpOthers(t *testing.T) {
	removal(t, 24*time.Hour, func(t *testing.T, g *graveyard) {
		g.add(t, "replaced", 100*time.Hour, nil)
		g.add(t, "next", 99*time.Hour, nil)
		g.change(func() { g.replaced = "replaced" }) // the API server has another pod of the name
		time.Sleep(time.Hour)
		g.wantDeleted(t, "0s next")
	})
}

func TestAClockThatJumpsMakesNoEvictionOld(t *testing.T) {
	began := time.Unix(100, 0)
	for name, c := range map[string]struct{ now, want int64 }{
		"it runs":                        {160, 160},
		"it is set after the start":      {1_700_000_000, 160},
		"it is set back after the start": {50, 50},
	} {
		if got := steady(began, time.Unix(c.now, 0), time.Minute); got.Unix() != c.want {
			t.Errorf("%s: %d, want %d", name, got.Unix(), c.want)
		}
	}
}
