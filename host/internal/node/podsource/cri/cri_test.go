package cri

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

func active(t *testing.T, s *fakecri.Server, dir string) pods.Snapshot {
	t.Helper()
	got, err := New(criclient.NewLister(s.Client(), nil), NewManifests(dir, defaultRules)).Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func names(s pods.Snapshot) []string {
	out := []string{}
	for _, p := range s.Pods {
		out = append(out, p.String())
	}
	return out
}

func TestActivePodsAreThoseThatRun(t *testing.T) {
	s := fakecri.New()
	for _, p := range []fakecri.Pod{
		{UID: "1", Name: "runs", Containers: []fakecri.Container{{Name: "c"}}},
		{UID: "2", Name: "over", NotReady: true, Containers: []fakecri.Container{{Name: "c", Exited: true}}},
		{UID: "3", Name: "is-starting"},
		{UID: "4", Name: "lost-its-sandbox", NotReady: true, Containers: []fakecri.Container{{Name: "c"}}},
		{UID: "5", Name: "runtime-is-not-sure", NotReady: true, Containers: []fakecri.Container{{Name: "c", Lost: true}}},
		{UID: "6", Name: "never-started", NotReady: true, Containers: []fakecri.Container{{Name: "c", Created: true}}},
		{UID: "7", Name: "has-no-labels", Unlabeled: true, Containers: []fakecri.Container{{Name: "c"}}},
		{UID: "", Name: "is-nobodys"},
	} {
		p.Namespace = "ns"
		s.Add(p)
	}
	want := []string{"ns/runs", "ns/is-starting", "ns/lost-its-sandbox", "ns/runtime-is-not-sure", "ns/has-no-labels"}
	if diff := cmp.Diff(want, names(active(t, s, t.TempDir()))); diff != "" {
		t.Error(diff)
	}
}

func TestPodsAreJoinedWithTheirManifests(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "known.yaml", podYAML("known-uid", "known", "spec: {priority: 9, containers: [{name: app}]}"))
	put(t, dir, "gone.yaml", podYAML("gone-uid", "gone"))
	put(t, dir, "wrong.yaml", podYAML("wrong-uid", "somebody-else"))
	put(t, dir, "bad.yaml", "kind: Pod")
	s := fakecri.New()
	known := s.Add(fakecri.Pod{UID: "known-uid", Namespace: "default", Name: "known", Containers: []fakecri.Container{
		{Name: "init", Exited: true}, {Name: "app", Exited: true}, {Name: "app", Attempt: 1}, {Name: "app", Attempt: 2, Created: true}, {Name: "sidecar"},
	}})
	s.Add(fakecri.Pod{UID: "stranger-uid", Namespace: "other", Name: "stranger", Containers: []fakecri.Container{{Name: "c"}}})
	s.Add(fakecri.Pod{UID: "wrong-uid", Namespace: "default", Name: "wrong"})

	got := active(t, s, dir)
	if diff := cmp.Diff([]string{"default/known", "other/stranger", "default/wrong"}, names(got)); diff != "" {
		t.Fatal(diff)
	}
	p := got.Pods[0]
	if !p.HasManifest || p.Row.Priority != 9 || p.API.Spec.Containers[0].Name != "app" {
		t.Errorf("known pod %+v, want it with its manifest", p)
	}
	if p.Row.StartTime.IsZero() {
		t.Error("start time is zero, want the sandbox's creation")
	}
	if diff := cmp.Diff(known.ContainerIDs[2:], p.ContainerIDs); diff != "" {
		t.Errorf("containers to kill: %s", diff)
	}
	if diff := cmp.Diff([]string{known.SandboxID}, p.SandboxIDs); diff != "" {
		t.Errorf("sandboxes to kill: %s", diff)
	}
	wantContainers := []eviction.Container{{Name: "app", ID: known.ContainerIDs[2]}, {Name: "sidecar", ID: known.ContainerIDs[4]}}
	if diff := cmp.Diff(wantContainers, p.Row.Containers); diff != "" {
		t.Errorf("containers to measure, the running attempt of each: %s", diff)
	}
	for _, p := range got.Pods[1:] {
		if p.HasManifest || p.API == nil || p.Row.UID == "" {
			t.Errorf("pod %s: %+v, want it shown without a manifest", p, p)
		}
	}
	if len(got.Problems) != 2 || !strings.Contains(got.Problems[0].Error(), "bad.yaml") ||
		!strings.Contains(got.Problems[1].Error(), `wrong.yaml: metadata.uid "wrong-uid" belongs to the running pod default/wrong, the manifest says default/somebody-else`) {
		t.Errorf("problems %v", got.Problems)
	}
	if again := active(t, s, dir); !cmp.Equal(names(got), names(again)) {
		t.Errorf("order changed to %v", names(again))
	}
}

func TestBothListsAreAskedForAtTheSameTimeAndNotForEver(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		source := New(criclient.NewLister(s.Client(), nil), NewManifests(dir, defaultRules))
		defer source.runtime.Close()
		s.Inject(fakecri.ListPodSandbox, fakecri.Fault{Delay: time.Second})
		s.Inject(fakecri.ListContainers, fakecri.Fault{Delay: time.Second})
		started := time.Now()
		if _, err := source.Active(t.Context()); err != nil || time.Since(started) != time.Second {
			t.Errorf("took %v, error %v, want 1s and none", time.Since(started), err)
		}
		s.Heal()
		s.Inject(fakecri.ListContainers, fakecri.Fault{Hang: true})
		started = time.Now()
		got, err := source.Active(t.Context())
		if err != nil || time.Since(started) != 10*time.Second || len(got.Stale) != 1 || got.Stale[0].Age != 11*time.Second || !strings.Contains(got.Stale[0].Err.Error(), "containers") {
			t.Errorf("took %v, error %v, stale %v, want 10s and the list of 11 s ago", time.Since(started), err, got.Stale)
		}
		empty := New(criclient.NewLister(s.Client(), nil), NewManifests(dir, defaultRules))
		defer empty.runtime.Close()
		if _, err := empty.Active(t.Context()); err == nil || !strings.Contains(err.Error(), "containers") {
			t.Errorf("%v, want the call's name", err)
		}
	})
}

func TestARuntimeThatIsAwaySaysWhatToDoAndMayComeBack(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "c.sock")
	conn, err := criclient.Dial(nodefs.FS{}, "unix://"+socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	source := New(criclient.NewLister(runtimeapi.NewRuntimeServiceClient(conn), nil), NewManifests(t.TempDir(), defaultRules))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	_, err = source.Active(ctx)
	for _, want := range []string{"pod sandboxes", "unix://" + socket + " does not exist", "containerd's is unix:///run/containerd/containerd.sock"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("absent socket: %v, want %q in it", err, want)
		}
	}

	s := fakecri.New()
	s.Add(fakecri.Pod{UID: "u", Name: "n"})
	for range 2 {
		if err := s.Listen(socket); err != nil {
			t.Fatal(err)
		}
		if got := untilActive(ctx, t, source); len(got.Pods) != 1 {
			t.Errorf("pods %v, want one", names(got))
		}
		s.Inject(fakecri.ListContainers, fakecri.Fault{Die: true, Times: 1})
		got, err := source.Active(ctx)
		if err != nil || len(got.Pods) != 1 || len(got.Stale) == 0 || !strings.Contains(got.Stale[len(got.Stale)-1].Err.Error(), "containers") {
			t.Errorf("runtime died in the middle: %v, %v, want the last pods and the call named", got, err)
		}
		s.Die()
	}
}

func untilActive(ctx context.Context, t *testing.T, source *Source) pods.Snapshot {
	t.Helper()
	for {
		got, err := source.Active(ctx)
		if err == nil {
			return got
		}
		select {
		case <-ctx.Done():
			t.Fatalf("runtime does not come back: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestWhatIsLeftOfPodsThatDoNotRun(t *testing.T) {
	dir := t.TempDir()
	s := fakecri.New()
	for _, name := range []string{"runs", "once", "again", "deleted", "strange"} {
		p := fakecri.Pod{UID: name, Namespace: "default", Name: name, NotReady: true, Containers: []fakecri.Container{{Name: "c", Exited: true}}}
		if name == "runs" {
			p.NotReady, p.Containers[0].Exited = false, false
		}
		s.Add(p)
	}
	put(t, dir, "runs.yaml", podYAML("runs", "runs"))
	put(t, dir, "once.yaml", podYAML("once", "once", "spec: {restartPolicy: Never}"))
	put(t, dir, "again.yaml", podYAML("again", "again"))
	put(t, dir, "deleted.yaml", podYAML("deleted", "deleted"))
	put(t, dir, "not-yet.yaml", podYAML("not-yet", "not-yet"))
	source := New(criclient.NewLister(s.Client(), nil), NewManifests(dir, defaultRules))
	look := func() pods.Snapshot {
		t.Helper()
		got, err := source.Active(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	look()
	testos.Remove(t, filepath.Join(dir, "deleted.yaml"))
	want := []pods.Ended{{UID: "once", State: eviction.PodTerminated}, {UID: "again", State: eviction.PodActive}, {UID: "deleted", State: eviction.PodDeleted}, {UID: "not-yet", State: eviction.PodActive}}
	for range 2 { // what is left of a deleted pod may take several steps to go
		if diff := cmp.Diff(want, look().Ended); diff != "" {
			t.Errorf("a pod whose manifest was never seen is somebody else's (-want +got):\n%s", diff)
		}
	}
	s.Remove("deleted")
	if diff := cmp.Diff(slices.Delete(want, 2, 3), look().Ended); diff != "" {
		t.Error(diff)
	}
}

// CRI-O wipes its containers at boot: what is left of a pod that is not back yet
// must not be taken for leftovers.
func TestAPodOfWhichTheRuntimeHasNothingIsNotGone(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "back.yaml", podYAML("back", "back"))
	put(t, dir, "again.yaml", podYAML("again", "again"))
	put(t, dir, "once.yaml", podYAML("once", "once", "spec: {restartPolicy: Never}"))
	s := fakecri.New()
	s.Add(fakecri.Pod{UID: "back", Namespace: "default", Name: "back"})
	got := active(t, s, dir)
	want := []pods.Ended{{UID: "again", State: eviction.PodActive}, {UID: "once", State: eviction.PodActive}}
	if diff := cmp.Diff(want, got.Ended); diff != "" || !got.Complete {
		t.Errorf("complete is %v, (-want +got):\n%s", got.Complete, diff)
	}
}

// A file that is half written, or cannot be opened just now, deletes no pod.
func TestAManifestThatCannotBeReadDeletesNoPod(t *testing.T) {
	dir := t.TempDir()
	s := fakecri.New()
	s.Add(fakecri.Pod{UID: "p", Namespace: "default", Name: "p", NotReady: true})
	put(t, dir, "p.yaml", podYAML("p", "p"))
	source := New(criclient.NewLister(s.Client(), nil), NewManifests(dir, defaultRules))
	look := func(when string, want eviction.PodState) {
		t.Helper()
		got, err := source.Active(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]pods.Ended{{UID: "p", State: want}}, got.Ended); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	look("whole", eviction.PodActive)
	put(t, dir, "p.yaml", "kind: Pod\nmetadata: {uid: p, na")
	look("half written", eviction.PodActive)
	testos.Remove(t, filepath.Join(dir, "p.yaml"))
	look("gone", eviction.PodDeleted)
}

func TestManifestsAreCompleteWhenEverythingThatRunsHasOne(t *testing.T) {
	dir := t.TempDir()
	s := fakecri.New()
	check := func(when string, want bool) {
		t.Helper()
		if got := active(t, s, dir).Complete; got != want {
			t.Errorf("%s: complete is %v, want %v", when, got, want)
		}
	}
	check("without pods", false)
	s.Add(fakecri.Pod{UID: "ours", Namespace: "default", Name: "ours"})
	put(t, dir, "ours.yaml", podYAML("ours", "ours"))
	check("with a manifest for every pod", true)
	put(t, dir, "broken.yaml", "kind: Pod\nspec: [")
	check("with a manifest that nobody can read", false)
	testos.Remove(t, filepath.Join(dir, "broken.yaml"))
	s.Add(fakecri.Pod{UID: "theirs", Namespace: "ns", Name: "theirs"})
	check("with somebody else's pod", false)
	s.Remove("theirs")
	check("without it", true)
	s.Add(fakecri.Pod{UID: "theirs", Namespace: "ns", Name: "theirs", NotReady: true})
	check("with what is left of it", false)
}

// Of a pod that runs a figure that is not found is unknown, of one that has ended it
// is none.
func TestWhichPodsRun(t *testing.T) {
	s := fakecri.New()
	for name, containers := range map[string][]fakecri.Container{
		"runs": {{Name: "c"}}, "lost": {{Name: "c", Lost: true}}, "created": {{Name: "c", Created: true}}, "exited": {{Name: "c", Exited: true}}, "empty": nil,
	} {
		s.Add(fakecri.Pod{UID: name, Namespace: "ns", Name: name, Containers: containers})
	}
	var running []string
	for _, p := range active(t, s, t.TempDir()).Pods {
		if p.Row.Running {
			running = append(running, p.Row.UID)
		}
	}
	slices.Sort(running)
	if diff := cmp.Diff([]string{"lost", "runs"}, running); diff != "" {
		t.Errorf("running pods (-want +got):\n%s", diff)
	}
	row := pods.Rules{}.Row(&v1.Pod{Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{
		{State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}, {State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
	}}}, nil)
	if !row.Running || (pods.Rules{}).Row(&v1.Pod{}, nil).Running {
		t.Error("a v1.Pod runs if one of its containers does")
	}
}
