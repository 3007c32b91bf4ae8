package criclient

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// large are annotations of which twenty are more than containerd sends.
var large = map[string]string{"a": strings.Repeat("x", 1<<20)}

// named returns the pods of a listing, with the number of ready sandboxes and of containers that
// have not exited.
func named(l Listing) (out []string) {
	for _, p := range l.Pods {
		out = append(out, fmt.Sprintf("%s %d %d", p.UID, len(p.Ready()), len(p.Left())))
	}
	slices.Sort(out)
	return out
}

// 16 MiB of annotations left no pod that could be evicted, and later made each listing of 108 pods
// take longer than a decision may.
func TestAListThatIsTooLargeIsReplacedByTheOtherAndTheCgroups(t *testing.T) {
	for name, c := range map[string]struct {
		sandbox, container map[string]string
		wantPods           string
	}{
		"annotations of sandboxes":  {sandbox: large, wantPods: " 1 1"},
		"annotations of containers": {container: large, wantPods: " 1 1"},
		"both":                      {sandbox: large, container: large, wantPods: " 0 2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakecri.Start(t)
			alive := map[string][]string{"only-a-sandbox": {"pause"}}
			var want []string
			for i := range 20 {
				uid := fmt.Sprintf("p%02d", i)
				added := s.Add(fakecri.Pod{UID: uid, Annotations: c.sandbox, Containers: []fakecri.Container{{Name: "c", Annotations: c.container}}})
				alive[uid] = append(added.ContainerIDs, added.SandboxID)
				want = append(want, uid+c.wantPods)
			}
			conn, err := Dial(nodefs.FS{}, s.Endpoint())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			l := NewLister(runtimeapi.NewRuntimeServiceClient(conn), processesIn(alive))
			for range 3 {
				got, err := l.Pods(t.Context())
				if err != nil || !slices.Equal(named(got), append([]string{"only-a-sandbox 0 1"}, want...)) || got.Stale == nil {
					t.Errorf("pods %q, stale: %v, %v, want %q", named(got), got.Stale, err, want)
				}
			}
			for method, annotations := range map[fakecri.Method]map[string]string{fakecri.ListPodSandbox: c.sandbox, fakecri.ListContainers: c.container} {
				if n := len(s.Calls(method)); annotations != nil && n != 1 {
					t.Errorf("%d calls of %s, want one a minute", n, method)
				}
			}
		})
	}
}

// processesIn returns pods with a cgroup and the ids of their containers that have processes; with nil
// the pod has none.
func processesIn(pods map[string][]string) Cgroups {
	return func() (map[string]func() nodefs.PodProcesses, error) {
		out := map[string]func() nodefs.PodProcesses{}
		for uid, ids := range pods {
			out[uid] = func() nodefs.PodProcesses { return nodefs.PodProcesses{Running: ids != nil, Containers: ids} }
		}
		return out, nil
	}
}

// checked returns the pods of l, compared with the cgroups.
func checked(t *testing.T, l *Lister) (Listing, error) {
	t.Helper()
	got, err := l.Pods(t.Context())
	if got.Check != nil {
		if corrected, differs := got.Check(t.Context()); differs {
			got = corrected
		}
	}
	return got, err
}

// While the lists took six seconds no pod was evicted.
func TestListsAreCorrectedByTheCgroups(t *testing.T) {
	const none = ""
	hangs := fakecri.Fault{Hang: true}
	for name, c := range map[string]struct {
		method fakecri.Method
		before map[string][]string // nil means as listed
		after  map[string][]string
		want   []string
	}{
		"no new containers": {
			fakecri.ListContainers, nil,
			map[string][]string{"stays": {"c-stays"}, "restarted": {"c-new"}, "new": {"c", "pause"}},
			[]string{"ended 0 0", "new 0 2", "restarted 1 2", "stays 1 1"},
		},
		"no new sandboxes": {
			fakecri.ListPodSandbox, nil,
			map[string][]string{"stays": {"c-stays"}, "restarted": {"c-new"}, "new": {"c", "pause"}},
			[]string{"ended 0 0", "new 0 2", "restarted 1 2", "stays 1 1"},
		},
		"new lists that are out of date": {
			none, nil,
			map[string][]string{"stays": {"c-stays"}, "restarted": {"c-restarted"}, "new": {"c", "pause"}},
			[]string{"ended 0 0", "new 0 2", "restarted 1 1", "stays 1 1"},
		},
		"cgroups that are elsewhere": {fakecri.ListContainers, map[string][]string{}, nil, []string{"ended 1 1", "restarted 1 1", "stays 1 1"}},
		"one that is elsewhere": {
			fakecri.ListContainers,
			map[string][]string{"stays": {}, "restarted": {}},
			map[string][]string{"stays": {}, "restarted": nil},
			[]string{"ended 1 1", "restarted 1 1", "stays 1 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fakecri.New()
				if c.before == nil {
					c.before = map[string][]string{"stays": {"c-stays"}, "restarted": {"c-restarted"}, "ended": {"c-ended"}}
				}
				for _, uid := range []string{"stays", "restarted", "ended"} {
					s.Add(fakecri.Pod{UID: uid, Containers: []fakecri.Container{{Name: "c", ID: "c-" + uid}}})
				}
				pods := c.before
				l := NewLister(s.Client(), func() (map[string]func() nodefs.PodProcesses, error) { return processesIn(pods)() })
				defer l.Close()
				if first, err := checked(t, l); err != nil || first.Stale != nil || len(first.Pods) != 3 {
					t.Fatal(first, err)
				}
				time.Sleep(time.Minute)
				pods = c.after
				took, age := time.Duration(0), time.Duration(0)
				if c.method != none {
					s.Inject(c.method, hangs)
					took, age = freshWait, time.Minute+freshWait
				}
				began := time.Now()
				got, err := checked(t, l)
				if err != nil || !slices.Equal(named(got), c.want) || len(got.Stale) != 1 || got.Stale[0].Age != age {
					t.Errorf("%q, stale %v, %v, want %q", named(got), got.Stale, err, c.want)
				}
				if time.Since(began) != took {
					t.Errorf("took %v, want %v", time.Since(began), took)
				}
			})
		})
	}
}

// A list without the container of a pod, or without its sandbox, left the pod's processes alive.
func TestWhatOneListLacksIsFoundInTheCgroups(t *testing.T) {
	s := fakecri.New()
	s.Add(fakecri.Pod{UID: "p"})                                                                  // its container is missing
	s.Add(fakecri.Pod{UID: "q", SandboxGone: true, Containers: []fakecri.Container{{Name: "c"}}}) // its sandbox is
	l := NewLister(s.Client(), processesIn(map[string][]string{"p": {"sandbox-1", "missing"}, "q": {"c-3", "sandbox-2"}}))
	got, err := checked(t, l)
	if want := []string{"p 1 1", "q 0 1"}; err != nil || !slices.Equal(named(got), want) {
		t.Errorf("%q, %v, want %q", named(got), err, want)
	}
}

func TestAListThatComesLateIsUsedByTheNextWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		s.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "c"}}})
		s.Inject(fakecri.ListContainers, fakecri.Fault{Delay: 6 * time.Second})
		l := NewLister(s.Client(), processesIn(map[string][]string{"p": {"c-1"}}))
		defer l.Close()
		began := time.Now()
		for _, err := l.Since(within(t, 5*time.Second), began); err != nil; _, err = l.Since(within(t, 5*time.Second), began) {
			if time.Since(began) > 6*time.Second {
				t.Fatal(err)
			}
		}
		if took, n := time.Since(began), len(s.Calls(fakecri.ListContainers)); took != 6*time.Second || n != 1 {
			t.Errorf("%v and %d calls, want 6s and one", took, n)
		}
	})
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// A container that a list had twice was measured and killed twice.
func TestAnItemThatIsListedTwiceCountsOnce(t *testing.T) {
	container := &runtimeapi.Container{Id: "c"}
	got := once([]*runtimeapi.Container{container, {}, container, {Id: "d"}, container})
	if len(got) != 2 || got[0].GetId() != "c" || got[1].GetId() != "d" {
		t.Errorf("%v, want c and d", got)
	}
}

// list returns the pods of a runtime, once.
func list(ctx context.Context, client runtimeapi.RuntimeServiceClient) ([]*Pod, error) {
	l := NewLister(client, nil)
	defer l.Close()
	return l.Since(ctx, time.Now())
}

// 651 MiB of annotations were kept, which decide nothing.
func TestOfAListingOnlyWhatIsReadIsKept(t *testing.T) {
	s := fakecri.New()
	annotations := map[string]string{"kubernetes.io/config.source": "api", "a": large["a"]}
	s.Add(fakecri.Pod{UID: "p", Namespace: "ns", Name: "p", Annotations: annotations, Containers: []fakecri.Container{{Name: "c", Annotations: annotations}}})
	l, err := list(t.Context(), s.Client())
	if err != nil {
		t.Fatal(err)
	}
	held, err := json.Marshal(l)
	if err != nil || len(held) > 2048 {
		t.Errorf("%d bytes are held, %v, want 2 KiB at most", len(held), err)
	}
	p := l[0]
	if p.Sandboxes[0].GetAnnotations()["kubernetes.io/config.source"] != "api" || p.Containers[0].GetLabels()[LabelName] != "p" {
		t.Errorf("%s are kept, want the source and the name", held)
	}
}

func TestAListIsStaleOnlyIfItIsNotNew(t *testing.T) {
	s := fakecri.New()
	s.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{{Name: "c"}}})
	ask := func() (Listing, error) { return NewLister(s.Client(), nil).Pods(within(t, time.Second)) }
	if l, err := ask(); err != nil || l.Stale != nil || len(s.Calls(fakecri.ListPodSandbox)) != 1 {
		t.Errorf("stale: %v, %v, %d calls", l.Stale, err, len(s.Calls(fakecri.ListPodSandbox)))
	}
	s.Inject(fakecri.ListPodSandbox, fakecri.Fault{Err: status.Error(codes.ResourceExhausted, "too much"), Times: 1})
	if l, err := ask(); err != nil || !slices.Equal(named(l), []string{"p 1 1"}) || len(l.Stale) != 1 {
		t.Errorf("pods %q, stale: %v, %v; want the container, and the sandbox that it names", named(l), l.Stale, err)
	}
	away := fakecri.Fault{Err: status.Error(codes.Unavailable, "away"), Times: 2}
	s.Inject(fakecri.ListPodSandbox, away)
	s.Inject(fakecri.ListContainers, away)
	if l, err := ask(); err == nil || len(l.Pods) > 0 {
		t.Errorf("pods %q of a runtime that is away", named(l))
	}
}

// explain --now printed the same sentence twice, each inside two errors of gRPC.
func TestARuntimeThatIsAwayIsReportedOnceAndPlainly(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "c.sock")
	conn, err := Dial(nodefs.FS{}, "unix://"+socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = list(t.Context(), runtimeapi.NewRuntimeServiceClient(conn))
	want := "pod sandboxes: container runtime socket unix://" + socket + " does not exist: is the runtime running and the endpoint right?"
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") || status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want %s", err, want)
	}
	s := fakecri.Start(t)
	back, err := Dial(nodefs.FS{}, s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	s.Inject(fakecri.ListContainers, fakecri.Fault{Hang: true})
	if _, err := list(within(t, 200*time.Millisecond), runtimeapi.NewRuntimeServiceClient(back)); err == nil || !strings.HasSuffix(err.Error(), ": no answer in time") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want no answer in time", err)
	}
}

// The runtime's lists took most of the time from a crossing to the choice of a pod.
func TestListsOfBeforeTheCrossingAreUsedOnce(t *testing.T) {
	s := fakecri.Start(t)
	s.Add(fakecri.Pod{UID: "old", Containers: []fakecri.Container{{ID: "c-old", Name: "c"}}})
	conn, err := Dial(nodefs.FS{}, s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	alive := map[string][]string{"old": {"c-old"}}
	l := NewLister(runtimeapi.NewRuntimeServiceClient(conn), processesIn(alive))
	listed := func(calls int, what string, want ...string) {
		t.Helper()
		got, err := checked(t, l)
		if n := len(s.Calls(fakecri.ListContainers)); err != nil || !slices.Equal(named(got), want) || n != calls {
			t.Errorf("%s: %q, %v, after %d calls, want %q after %d", what, named(got), err, n, want, calls)
		}
	}
	l.Prepare(t.Context())
	s.Add(fakecri.Pod{UID: "new", Containers: []fakecri.Container{{ID: "c-new", Name: "c"}}})
	alive["new"] = []string{"c-new"}
	listed(1, "prepared, with a pod that has started since", "new 0 1", "old 1 1")
	listed(2, "the next listing", "new 1 1", "old 1 1")
	l.Prepare(t.Context())
	long := time.Now().Add(-preparedFor)
	l.prepared.Store(&long)
	listed(4, "prepared long ago", "new 1 1", "old 1 1")
	l.found.cgroups = nil
	l.Prepare(t.Context())
	listed(5, "without cgroups", "new 1 1", "old 1 1")
}

// A pod that had ended was evicted: a list without it had come, and then an older one again.
func TestAListThatIsOlderThanTheOneBeforeItBringsNoPodBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := found{cgroups: processesIn(map[string][]string{"stays": {"c"}})}
		both := map[string]bool{"stays": true, "ended": true}
		with, _ := processesIn(map[string][]string{"stays": {"c"}, "ended": {"c"}})()
		without, _ := f.cgroups()
		f.remember(with, both)
		for _, listed := range []map[string]bool{{"stays": true}, both, both} {
			if gone := f.remember(without, listed); gone["ended"] != listed["ended"] || gone["stays"] {
				t.Errorf("gone are %v of the listed %v, want ended if it is listed", gone, listed)
			}
		}
		if !f.ended(t.Context(), "ended") || f.ended(t.Context(), "stays") {
			t.Error("want ended alone to have ended")
		}
		time.Sleep(goneFor)
		if f.remember(without, map[string]bool{"stays": true}); len(f.gone) != 0 {
			t.Errorf("%v are remembered after %v, want no pod that is not listed", f.gone, goneFor)
		}
	})
}
