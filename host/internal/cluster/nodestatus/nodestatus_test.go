package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/evictd/evictd/shared/eviction"
)

// An apiServer has one node, and merges patches as the real one.
type apiServer struct {
	mu       sync.Mutex
	node     v1.Node
	away     error // for all, forbidden for taints
	noTaints error
	asked    []string
}

func (a *apiServer) Node(context.Context) (*v1.Node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, "get")
	if a.away != nil {
		return &v1.Node{}, a.away
	}
	return a.node.DeepCopy(), nil
}

// kubelet has the kubelet report a condition, and the node lifecycle controller its taint.
func (a *apiServer) kubelet(c v1.NodeConditionType, taint string, status v1.ConditionStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.node.Status.Conditions = slices.DeleteFunc(a.node.Status.Conditions, func(n v1.NodeCondition) bool { return n.Type == c })
	a.node.Status.Conditions = append(a.node.Status.Conditions, v1.NodeCondition{Type: c, Status: status})
	a.node.Spec.Taints = slices.DeleteFunc(a.node.Spec.Taints, func(n v1.Taint) bool { return n.Key == taint })
	if status == v1.ConditionTrue && taint != "" {
		a.node.Spec.Taints = append(a.node.Spec.Taints, v1.Taint{Key: taint, Effect: v1.TaintEffectNoSchedule})
	}
}

func (a *apiServer) PatchNode(_ context.Context, subresource string, body []byte) (*v1.Node, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, strings.TrimSpace(subresource+" "+string(body)))
	if a.away != nil {
		return nil, a.away
	}
	if subresource == "" && a.noTaints != nil {
		return nil, a.noTaints
	}
	was, err := json.Marshal(a.node)
	if err != nil {
		return nil, err
	}
	is, err := strategicpatch.StrategicMergePatch(was, body, v1.Node{})
	if err != nil {
		return nil, err
	}
	next := v1.Node{}
	if err := json.Unmarshal(is, &next); err != nil {
		return nil, err
	}
	if next.ResourceVersion != a.node.ResourceVersion {
		return nil, apierrors.NewConflict(v1.Resource("nodes"), "node-1", errors.New("another version"))
	}
	next.ResourceVersion = fmt.Sprint(len(a.asked))
	a.node = next
	return next.DeepCopy(), nil
}

// requests returns the requests so far.
func (a *apiServer) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// shows returns the node's conditions and taints as sorted words.
func (a *apiServer) shows() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := []string{}
	for _, c := range a.node.Status.Conditions {
		out = append(out, string(c.Type)+"="+string(c.Status))
	}
	for _, t := range a.node.Spec.Taints {
		out = append(out, t.Key+":"+string(t.Effect))
	}
	slices.Sort(out)
	return out
}

func newServer() *apiServer {
	a := &apiServer{}
	a.node.Name = "node-1"
	a.node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}, {Type: v1.NodeDiskPressure, Status: v1.ConditionFalse}}
	a.node.Spec.Taints = []v1.Taint{{Key: "example.com/gpu", Effect: v1.TaintEffectNoExecute}}
	return a
}

func never() bool { return false }

var others = []string{"DiskPressure=False", "Ready=True", "example.com/gpu:NoExecute"}

const spare = eviction.Condition("acme.example/SparePressure")

func TestConditionsComeAndGoWithTheirTaints(t *testing.T) {
	for name, c := range map[string]struct {
		wanted []eviction.Condition
		taints bool
		want   []string
	}{
		"conditions": {[]eviction.Condition{eviction.DiskPressure, spare}, false, []string{"evictd.io/DiskPressure=True", "evictd.io/SparePressure=True"}},
		"and taints": {
			[]eviction.Condition{eviction.DiskPressure, spare},
			true,
			[]string{"evictd.io/disk-pressure:NoSchedule", "evictd.io/DiskPressure=True", "evictd.io/SparePressure:NoSchedule", "evictd.io/SparePressure=True"},
		},
		"nothing": {nil, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := newServer()
			// What a former evictd has left goes, or stays as it is if it still holds.
			a.node.Status.Conditions = append(a.node.Status.Conditions, v1.NodeCondition{Type: "evictd.io/Old", Status: v1.ConditionTrue})
			a.node.Spec.Taints = append(a.node.Spec.Taints, v1.Taint{Key: "evictd.io/Old", Effect: v1.TaintEffectNoSchedule})
			want := append(slices.Clone(others), c.want...)
			slices.Sort(want)
			for range 2 {
				if err := Hold(t.Context(), a, c.wanted, c.taints); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, a.shows()); diff != "" {
					t.Errorf("the node (-want +got):\n%s", diff)
				}
			}
			if last := a.asked[len(a.asked)-1]; last != "get" {
				t.Errorf("%s was written although nothing has changed", last)
			}
			if err := Hold(t.Context(), a, nil, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(others, a.shows()); diff != "" {
				t.Errorf("when all is removed (-want +got):\n%s", diff)
			}
		})
	}
}

// Somebody else taints the node between evictd's look and its write.
func TestTaintsOfOthersAreNotWrittenOver(t *testing.T) {
	for name, c := range map[string]struct{ writes, want int }{"once": {1, 0}, "again and again": {100, conflicts}} {
		t.Run(name, func(t *testing.T) {
			a := newServer()
			err := Hold(t.Context(), &contended{apiServer: a, left: c.writes}, []eviction.Condition{eviction.DiskPressure}, true)
			if got := a.shows(); !slices.Contains(got, "example.com/raced:NoSchedule") || slices.Contains(got, "evictd.io/disk-pressure:NoSchedule") != (c.want == 0) {
				t.Errorf("the node has %v", got)
			}
			if apierrors.IsConflict(err) != (c.want > 0) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// contended has others write the node before each of so many writes of taints.
type contended struct {
	*apiServer
	left int
}

func (r *contended) PatchNode(ctx context.Context, subresource string, body []byte) (*v1.Node, error) {
	if r.left > 0 && subresource == "" {
		r.left--
		r.mu.Lock()
		r.node.ResourceVersion += "1"
		if !hasTaint(&r.node, "example.com/raced") {
			r.node.Spec.Taints = append(r.node.Spec.Taints, v1.Taint{Key: "example.com/raced", Effect: v1.TaintEffectNoSchedule})
		}
		r.mu.Unlock()
	}
	return r.apiServer.PatchNode(ctx, subresource, body)
}

// The scheduler sees one of the two at any time, and never both for long: DaemonSets tolerate the
// kubelet's taint alone.
func TestWhatTheKubeletReportsIsNotReportedTwice(t *testing.T) {
	for condition, kubelet := range map[eviction.Condition]struct {
		kind v1.NodeConditionType
		key  string
	}{
		eviction.MemoryPressure: {v1.NodeMemoryPressure, v1.TaintNodeMemoryPressure},
		eviction.DiskPressure:   {v1.NodeDiskPressure, v1.TaintNodeDiskPressure},
		eviction.PIDPressure:    {v1.NodePIDPressure, v1.TaintNodePIDPressure},
	} {
		t.Run(string(condition), func(t *testing.T) {
			a := newServer()
			own := func(want bool, when string) {
				t.Helper()
				if err := Hold(t.Context(), a, []eviction.Condition{condition}, true); err != nil {
					t.Fatal(err)
				}
				for _, word := range []string{TaintKey(condition) + ":NoSchedule", Name(condition) + "=True"} {
					if got := a.shows(); slices.Contains(got, word) != want {
						t.Errorf("%s: the node has %v, %s wanted: %t", when, got, word, want)
					}
				}
			}
			own(true, "the kubelet reports nothing")
			a.kubelet(kubelet.kind, "", v1.ConditionTrue)
			own(true, "the kubelet reports it, its taint is not there yet")
			a.kubelet(kubelet.kind, kubelet.key, v1.ConditionTrue)
			own(false, "the kubelet's taint is there")
			a.kubelet(kubelet.kind, kubelet.key, v1.ConditionFalse)
			own(true, "the kubelet no longer reports it")
			a.kubelet(kubelet.kind, kubelet.key, v1.ConditionUnknown)
			own(true, "the kubelet does not answer")
			a = newServer()
			a.kubelet(kubelet.kind, "", v1.ConditionTrue)
			own(false, "the kubelet was first")
		})
	}
}

func TestNodeCredentialsMayWriteNoTaints(t *testing.T) {
	a := newServer()
	a.noTaints = apierrors.NewForbidden(v1.Resource("nodes"), "node-1", errors.New(`is not allowed to modify taints`))
	err := Hold(t.Context(), a, []eviction.Condition{eviction.DiskPressure}, true)
	if err == nil || !strings.Contains(err.Error(), "deploy/rbac/node-conditions.yaml") || !strings.Contains(err.Error(), "not allowed to modify taints") {
		t.Errorf("%v", err)
	}
	if got := a.shows(); !slices.Contains(got, "evictd.io/DiskPressure=True") {
		t.Errorf("the node has %v, want the condition at least", got)
	}
}

func TestAKeeperWritesTheLatestConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newServer()
		k := New(a, Taints, never, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { k.Run(ctx) })
		shows := func(want ...string) {
			t.Helper()
			synctest.Wait()
			all := append(slices.Clone(others), want...)
			slices.Sort(all)
			if diff := cmp.Diff(all, a.shows()); diff != "" {
				t.Errorf("the node (-want +got):\n%s", diff)
			}
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if asked := a.requests(); len(asked) > 0 {
			t.Errorf("%v before anything is known", asked)
		}
		k.Set([]eviction.Condition{eviction.DiskPressure})
		shows("evictd.io/DiskPressure=True", "evictd.io/disk-pressure:NoSchedule")
		asked := len(a.requests())
		k.Set([]eviction.Condition{eviction.DiskPressure})
		synctest.Wait()
		if more := a.requests()[asked:]; len(more) > 0 {
			t.Errorf("%v for what is so already", more)
		}
		a.mu.Lock()
		a.away = errors.New("connection refused")
		a.mu.Unlock()
		k.Set([]eviction.Condition{spare})
		time.Sleep(time.Minute)
		synctest.Wait()
		k.Set(nil) // while it is away
		shows("evictd.io/DiskPressure=True", "evictd.io/disk-pressure:NoSchedule")
		a.mu.Lock()
		a.away = nil
		a.mu.Unlock()
		time.Sleep(2 * maxRetry)
		shows()
	})
}

// The node is deleted and registered again, or somebody takes a taint away by hand.
func TestWhatOthersTakeAwayIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newServer()
		k := New(a, Taints, never, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.Run(ctx)
		k.Set([]eviction.Condition{eviction.DiskPressure})
		synctest.Wait()
		held := a.shows()
		a.mu.Lock()
		a.node = newServer().node
		a.mu.Unlock()
		time.Sleep(lookAgain)
		synctest.Wait()
		if diff := cmp.Diff(held, a.shows()); diff != "" || len(held) != len(others)+2 {
			t.Errorf("the node (-before +after it was registered again):\n%s", diff)
		}
		asked := len(a.requests())
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(a.requests()) - asked; n > 360 {
			t.Errorf("%d requests in an hour under pressure, want at most 360", n)
		}
		k.Set(nil)
		synctest.Wait()
		asked = len(a.requests())
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := len(a.requests()) - asked; n > 0 {
			t.Errorf("%d requests on a day without pressure, want none", n)
		}
	})
}

// The pressure is over while the API server still refuses what was written before.
func TestAChangeDoesNotWaitForTheNextTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newServer()
		a.noTaints = apierrors.NewForbidden(v1.Resource("nodes"), "node-1", errors.New("no taints"))
		k := New(a, Taints, never, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go k.Run(ctx)
		k.Set([]eviction.Condition{eviction.DiskPressure})
		synctest.Wait()
		k.Set(nil)
		synctest.Wait()
		if diff := cmp.Diff(others, a.shows()); diff != "" {
			t.Errorf("the node (-want +got):\n%s", diff)
		}
	})
}

// A node is tried with a dry run first, which a reload ends; and begins, for a break. What an evictd
// before has left goes, also where this one writes nothing to the node.
func TestADryRunHoldsNothingAndAReloadEndsIt(t *testing.T) {
	for name, level := range map[string]Level{"taints": Taints, "conditions": Conditions, "none": None} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newServer()
				if err := Hold(t.Context(), a, []eviction.Condition{eviction.MemoryPressure}, true); err != nil {
					t.Fatal(err)
				}
				var dryRun atomic.Bool
				var out strings.Builder
				k := New(a, level, dryRun.Load, slog.New(slog.NewTextHandler(&out, nil)))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go k.Run(ctx)
				pass := func(dry bool, want ...string) {
					t.Helper()
					dryRun.Store(dry)
					k.Set([]eviction.Condition{eviction.DiskPressure})
					time.Sleep(2 * lookAgain)
					synctest.Wait()
					want = append(want, others...)
					slices.Sort(want)
					if diff := cmp.Diff(want, a.shows()); diff != "" {
						t.Errorf("the node, dry run %t (-want +got):\n%s", dry, diff)
					}
				}
				pass(true)
				held := []string{"evictd.io/DiskPressure=True", "evictd.io/disk-pressure:NoSchedule"}[:level]
				if logged := strings.Contains(out.String(), "evictd.io/disk-pressure"); logged != (level == Taints) {
					t.Errorf("the log of the dry run: %q, want the taint in it: %t", out.String(), level == Taints)
				}
				asked := len(a.requests())
				time.Sleep(time.Hour)
				if more := a.requests()[asked:]; len(more) > 0 {
					t.Errorf("asked %q in a dry run in which nothing changes", more)
				}
				pass(false, held...)
				pass(true)
				pass(false, held...)
			})
		})
	}
}

// An eviction was reported before the condition that it belongs to: a controller's next pod came
// to the node. It waits for the node's condition and taint, a second at most.
func TestAnEvictionIsReportedAfterItsCondition(t *testing.T) {
	for name, c := range map[string]struct {
		away error
		runs bool
		want time.Duration
	}{
		"the API server takes it":     {nil, true, 0},
		"it does not":                 {errors.New("away"), true, 0},
		"it does not answer for long": {nil, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newServer()
				a.away = c.away
				k := New(a, Taints, never, slog.New(slog.DiscardHandler))
				ctx, cancel := context.WithCancel(t.Context())
				k.Settle(ctx) // nothing was set
				k.Set([]eviction.Condition{eviction.DiskPressure})
				if c.runs {
					go k.Run(ctx)
				}
				began := time.Now()
				k.Settle(ctx)
				if took := time.Since(began); took != c.want {
					t.Errorf("waited for %v, want %v", took, c.want)
				}
				if shows := slices.Contains(a.shows(), "evictd.io/disk-pressure:NoSchedule"); shows != (c.runs && c.away == nil) {
					t.Errorf("the node has the taint: %v", shows)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

// evictd is killed after any of its requests, the API server is away at any of them, others write the node, a dry run begins
// and ends: in the end the node has what was set last, nothing more and nothing less.
func TestWhateverHappensTheNodeHasWhatTheLastEvictdHolds(t *testing.T) {
	all := []eviction.Condition{eviction.MemoryPressure, eviction.DiskPressure, eviction.PIDPressure, spare}
	for round := range uint64(500) {
		r := rand.New(rand.NewPCG(round, 43))
		synctest.Test(t, func(t *testing.T) {
			f := &failing{apiServer: newServer(), r: rand.New(rand.NewPCG(round, 44))}
			var want []string
			for range 1 + r.IntN(4) { // lives of evictd
				ctx, cancel := context.WithCancel(t.Context())
				f.next(cancel, r.IntN(12))
				level, dryRun := Level(r.IntN(3)), r.IntN(4) == 0
				k := New(f, level, func() bool { return dryRun }, slog.New(slog.DiscardHandler))
				var running sync.WaitGroup
				running.Go(func() { k.Run(ctx) })
				for range 1 + r.IntN(3) {
					var holds []eviction.Condition
					for _, c := range all {
						if r.IntN(2) == 0 {
							holds = append(holds, c)
						}
					}
					k.Set(holds)
					want = slices.Clone(others)
					for _, c := range holds {
						if !dryRun && level != None {
							want = append(want, Name(c)+"=True")
						}
						if !dryRun && level == Taints {
							want = append(want, TaintKey(c)+":NoSchedule")
						}
					}
					time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
				}
				if k.Settle(ctx); r.IntN(2) == 0 {
					cancel()
				}
				f.next(func() {}, 0)
				if ctx.Err() == nil {
					time.Sleep(5 * time.Minute)
				}
				last := ctx.Err() == nil
				cancel()
				running.Wait()
				if last { // it has lived long enough
					if got := f.shows(); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
						t.Errorf("round %d: the node has %v, want %v", round, got, want)
					}
				}
			}
		})
	}
}

// failing is an API server that is away now and then, and at which evictd is killed after so many requests.
type failing struct {
	*apiServer
	lock sync.Mutex
	r    *rand.Rand
	kill context.CancelFunc
	left int
}

// next has kill called after so many more requests, never for 0.
func (f *failing) next(kill context.CancelFunc, left int) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.kill, f.left = kill, left
}

// asks reports whether a request reaches the API server, and whether its answer comes back.
func (f *failing) asks() (reaches, answers bool) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.left--; f.left == 0 {
		defer f.kill()
		return f.r.IntN(2) == 0, false
	}
	n := f.r.IntN(10)
	return n > 1, n > 2
}

func (f *failing) Node(ctx context.Context) (*v1.Node, error) {
	if reaches, answers := f.asks(); !reaches || !answers {
		return &v1.Node{}, errors.New("away")
	}
	return f.apiServer.Node(ctx)
}

func (f *failing) PatchNode(ctx context.Context, subresource string, body []byte) (*v1.Node, error) {
	reaches, answers := f.asks()
	if !reaches {
		return nil, errors.New("away")
	}
	node, err := f.apiServer.PatchNode(ctx, subresource, body)
	if !answers {
		return nil, errors.New("away")
	}
	return node, err
}

// An uninstallation clears all nodes, also when one is gone meanwhile or cannot be written, which it names.
func TestClearing(t *testing.T) {
	nodes := map[string]*apiServer{"clean": newServer(), "tainted": newServer(), "gone": newServer(), "locked": newServer()}
	for name, a := range nodes {
		a.node.Name = name
		if name != "clean" {
			if err := Hold(t.Context(), a, []eviction.Condition{eviction.MemoryPressure, spare}, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	each := func(_ context.Context, do func(*v1.Node) error) error {
		for _, a := range nodes {
			a.asked = nil
			if err := do(a.node.DeepCopy()); err != nil {
				return err
			}
		}
		return nil
	}
	nodes["gone"].away = apierrors.NewNotFound(v1.Resource("nodes"), "gone")
	nodes["locked"].noTaints = apierrors.NewForbidden(v1.Resource("nodes"), "locked", errors.New("no taints"))
	err := Clear(t.Context(), each, func(node string) API { return nodes[node] })
	if err == nil || !strings.Contains(err.Error(), "node locked: ") || strings.Contains(err.Error(), "gone") {
		t.Errorf("error %v, want one of node locked", err)
	}
	if got := nodes["tainted"].shows(); !slices.Equal(got, others) {
		t.Errorf("the tainted node has %v", got)
	}
	if asked := nodes["clean"].asked; len(asked) > 0 {
		t.Errorf("a node that has nothing of evictd was asked %v", asked)
	}
}
