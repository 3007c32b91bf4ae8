package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"github.com/evictd/evictd/test/fakes/fakecri"
)

var quiet = slog.New(slog.DiscardHandler)

// logTo has no time in its lines, so that they can be compared.
func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
}

func execHook(command ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: command}}
}

func sleepHook(seconds int64) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}}
}

// A part is a container as the manifest and the runtime have it.
type part struct {
	name      string
	hook      *v1.LifecycleHandler
	diesAfter time.Duration
	// execTakes is the duration of a command in it, forever if negative.
	execTakes time.Duration
	execCode  int32
	// sidecar and initial are init containers, unlisted is in no manifest.
	sidecar, initial, unlisted bool
}

// run runs the parts as the pod "u".
func run(s *fakecri.Server, parts ...part) pods.Pod {
	api, row, made := &v1.Pod{}, eviction.Pod{UID: "u"}, fakecri.Pod{UID: "u", Name: "pod", IP: "127.0.0.1"}
	for _, p := range parts {
		c := v1.Container{Name: p.name}
		if p.hook != nil {
			c.Lifecycle = &v1.Lifecycle{PreStop: p.hook}
		}
		switch {
		case p.sidecar:
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			api.Spec.InitContainers = append(api.Spec.InitContainers, c)
		case p.initial:
			api.Spec.InitContainers = append(api.Spec.InitContainers, c)
		case !p.unlisted:
			api.Spec.Containers = append(api.Spec.Containers, c)
		}
		made.Containers = append(made.Containers, fakecri.Container{
			ID: "id-" + p.name, Name: p.name, DiesAfter: p.diesAfter, Exec: func(string) int32 { return p.execCode },
		})
		row.Containers = append(row.Containers, eviction.Container{Name: p.name, ID: "id-" + p.name})
		if p.execTakes != 0 {
			s.Inject(fakecri.ExecSync, fakecri.Fault{ID: "id-" + p.name, Delay: p.execTakes, Hang: p.execTakes < 0})
		}
	}
	added := s.Add(made)
	return pods.Pod{API: api, Row: row, SandboxIDs: []string{added.SandboxID}, ContainerIDs: added.ContainerIDs, HasManifest: true}
}

// diary lists the calls to the containers' runtime, with their times.
func diary(s *fakecri.Server, began time.Time) []string {
	var out []string
	for _, c := range s.Calls(fakecri.ExecSync, fakecri.StopContainer) {
		line := fmt.Sprintf("%v %s ", c.Time.Sub(began), strings.TrimPrefix(c.ID, "id-"))
		if c.Method == fakecri.ExecSync {
			line += fmt.Sprintf("runs %s, %d s", c.Command, c.Timeout)
		} else {
			line += fmt.Sprintf("stop, %d s", c.Timeout)
		}
		out = append(out, line)
	}
	return out
}

// What a kubelet does for a pod that it ends, within the grace period.
func TestAPodIsEndedAsAKubeletDoes(t *testing.T) {
	const never = fakecri.IgnoresTerm
	for name, c := range map[string]struct {
		grace    int64
		parts    []part
		want     []string
		took     time.Duration
		reported string
	}{
		"a hook has run to its end before the container is stopped": {
			grace: 10, parts: []part{{name: "main", hook: execHook("say", "bye"), execTakes: 2 * time.Second, diesAfter: time.Second}},
			want: []string{"0s main runs say bye, 10 s", "2s main stop, 8 s"}, took: 3 * time.Second, reported: "preStop hook ended",
		},
		"a hard eviction cuts the hook, a second for it and another for the container": {
			grace: 1, parts: []part{{name: "main", hook: execHook("hang"), execTakes: -1, diesAfter: never}},
			want: []string{"0s main runs hang, 1 s", "1s main stop, 1 s"}, took: 2 * time.Second, reported: "the grace period is over",
		},
		"a hook that takes all of the grace leaves a second": {
			grace: 4, parts: []part{{name: "main", hook: execHook("long"), execTakes: time.Minute, diesAfter: never}},
			want: []string{"0s main runs long, 4 s", "4s main stop, 1 s"}, took: 5 * time.Second, reported: "the grace period is over",
		},
		"a hook that fails is told, and the container stopped": {
			grace: 10, parts: []part{{name: "main", hook: execHook("fail"), execCode: 3}},
			want: []string{"0s main runs fail, 10 s", "0s main stop, 10 s"}, reported: "exit code 3: output of fail",
		},
		"hooks run at the same time, and no container waits for another's": {
			grace: 10, parts: []part{
				{name: "a", hook: sleepHook(3)}, {name: "b", hook: execHook("x"), execTakes: time.Second}, {name: "c"},
			},
			want: []string{"0s b runs x, 10 s", "0s c stop, 10 s", "1s b stop, 9 s", "3s a stop, 7 s"}, took: 3 * time.Second,
		},
		"a sleep may not be over in time": {
			grace: 2, parts: []part{{name: "main", hook: sleepHook(1 << 60), diesAfter: time.Second / 2}},
			want: []string{"2s main stop, 1 s"}, took: 2500 * time.Millisecond, reported: "the grace period is over",
		},
		"tcpSocket is told and costs no time": {
			grace: 10, parts: []part{{name: "main", hook: &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{}}}},
			want: []string{"0s main stop, 10 s"}, reported: "lifecycle.preStop.tcpSocket is never run: want exec, httpGet or sleep",
		},
		"a hook without anything to run": {
			grace: 10, parts: []part{{name: "main", hook: &v1.LifecycleHandler{}}},
			want: []string{"0s main stop, 10 s"}, reported: "lifecycle.preStop names nothing to run",
		},
		"sidecars are stopped after all main containers, the last one first": {
			grace: 10, parts: []part{
				{name: "early", sidecar: true, diesAfter: time.Second},
				{name: "setup", initial: true},
				{name: "late", sidecar: true, diesAfter: time.Second},
				{name: "a", diesAfter: time.Second},
				{name: "b", diesAfter: 3 * time.Second},
			},
			want: []string{"0s a stop, 10 s", "0s b stop, 10 s", "0s setup stop, 10 s", "3s late stop, 7 s", "4s early stop, 6 s"}, took: 5 * time.Second,
		},
		"sidecars go together when the grace is over": {
			grace: 3, parts: []part{
				{name: "early", sidecar: true, diesAfter: never}, {name: "late", sidecar: true, diesAfter: never}, {name: "main", diesAfter: never},
			},
			want: []string{"0s main stop, 3 s", "3s early stop, 1 s", "3s late stop, 1 s"}, took: 4 * time.Second,
		},
		"a sidecar's hook does not wait": {
			grace: 10, parts: []part{{name: "side", sidecar: true, hook: execHook("flush")}, {name: "main", diesAfter: 2 * time.Second}},
			want: []string{"0s main stop, 10 s", "0s side runs flush, 10 s", "2s side stop, 8 s"}, took: 2 * time.Second,
		},
		"a sidecar whose main containers have ended": {
			grace: 10, parts: []part{{name: "side", sidecar: true, diesAfter: time.Second}},
			want: []string{"0s side stop, 10 s"}, took: time.Second,
		},
		"a hard eviction with everything": {
			grace: 1, parts: []part{
				{name: "side", sidecar: true, hook: execHook("hang"), execTakes: -1, diesAfter: never},
				{name: "main", hook: execHook("hang"), execTakes: -1, diesAfter: never},
				{name: "other", diesAfter: never},
			},
			want: []string{"0s main runs hang, 1 s", "0s other stop, 1 s", "0s side runs hang, 1 s", "1s main stop, 1 s", "1s side stop, 1 s"}, took: 2 * time.Second,
			reported: "the grace period is over",
		},
		"what no manifest has is stopped at once, and nobody waits for it": {
			grace: 10, parts: []part{{name: "side", sidecar: true}, {name: "debugger", unlisted: true, diesAfter: never}, {name: "main"}},
			want: []string{"0s debugger stop, 10 s", "0s main stop, 10 s", "0s side stop, 10 s"}, took: 10 * time.Second,
		},
		"without grace there is time for nothing": {
			grace: 0, parts: []part{{name: "side", sidecar: true}, {name: "main", hook: execHook("x")}},
			want: []string{"0s main stop, 0 s", "0s side stop, 0 s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fakecri.New()
				var log bytes.Buffer
				target, k := run(s, c.parts...), New(Options{Runtime: s.Client(), Log: logTo(&log)})
				began := time.Now()
				if err := k.Kill(t.Context(), with(target, c.grace)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				got := diary(s, began)
				slices.Sort(got)
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if !strings.Contains(log.String(), c.reported) || c.reported == "" && strings.Contains(log.String(), "WARN") {
					t.Errorf("log %q, want %q in it", log.String(), c.reported)
				}
				if !finished(t, k, "u") {
					t.Error("not finished")
				}
			})
		})
	}
}

// Of three sidecars the one in the middle has ended: in a kubelet the first would not wait
// for the last.
func TestASidecarWaitsForAllLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		target := run(s, part{name: "first", sidecar: true}, part{name: "middle", sidecar: true}, part{name: "last", sidecar: true, diesAfter: 2 * time.Second})
		target.ContainerIDs = slices.Delete(target.ContainerIDs, 1, 2)
		began := time.Now()
		if err := New(Options{Runtime: s.Client(), Log: quiet}).Kill(t.Context(), with(target, 10)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"0s last stop, 10 s", "2s first stop, 8 s"}, diary(s, began)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// A restarted evictd may know the parts of a pod by the journal alone.
func TestWithoutAManifestAllContainersAreStoppedTogether(t *testing.T) {
	for name, forget := range map[string]func(*pods.Pod){
		"no manifest":       func(p *pods.Pod) { p.API, p.HasManifest = &v1.Pod{}, false },
		"only ids":          func(p *pods.Pod) { p.API, p.Row = nil, eviction.Pod{} },
		"only the pod's id": func(p *pods.Pod) { *p = pods.Pod{} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fakecri.New()
				target := run(s, part{name: "side", sidecar: true, hook: execHook("x")}, part{name: "main", hook: execHook("x"), diesAfter: 2 * time.Second})
				forget(&target)
				began := time.Now()
				if err := New(Options{Runtime: s.Client(), Log: quiet}).Kill(t.Context(), with(target, 5)); err != nil {
					t.Fatal(err)
				}
				got := diary(s, began)
				slices.Sort(got)
				if diff := cmp.Diff([]string{"0s main stop, 5 s", "0s side stop, 5 s"}, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		})
	}
}

// Containers that a kubelet has made since the pod was listed have their hooks and their order,
// too.
func TestContainersMadeAfterTheListFollowTheManifest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		target := run(s, part{name: "side", sidecar: true}, part{name: "main", hook: execHook("bye"), execTakes: time.Second})
		target.SandboxIDs, target.ContainerIDs = nil, nil
		for i := range target.Row.Containers {
			target.Row.Containers[i].ID = "of-then"
		}
		began := time.Now()
		if err := New(Options{Runtime: s.Client(), Log: quiet}).Kill(t.Context(), with(target, 5)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"0s main runs bye, 5 s", "1s main stop, 4 s", "1s side stop, 4 s"}, diary(s, began)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// A hard threshold is met while the victim of a soft one runs its hook.
func TestASecondKillCutsTheHooksOfTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		var log bytes.Buffer
		target := run(s, part{name: "side", sidecar: true}, part{name: "main", hook: execHook("long"), execTakes: time.Minute, diesAfter: fakecri.IgnoresTerm})
		k, first := New(Options{Runtime: s.Client(), Log: logTo(&log)}), make(chan error, 1)
		began := time.Now()
		go func() { first <- k.Kill(t.Context(), with(target, 60)) }()
		<-time.After(5 * time.Second)
		if err := errors.Join(k.Kill(t.Context(), with(target, 1)), <-first); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("took %v, want the 5 s of the hook and a second", took)
		}
		if n := len(s.Calls(fakecri.ExecSync)); n != 1 {
			t.Errorf("the hook was run %d times, want once", n)
		}
		if !strings.Contains(log.String(), "another grace period") {
			t.Errorf("log %q, want that the hook was cut short", log.String())
		}
		if err := k.Kill(t.Context(), with(target, 1)); err != nil {
			t.Errorf("a later kill: %v", err)
		}
	})
}

// A third kill ran the hook again if the first had ended meanwhile.
func TestAThirdKillRunsNoHooksDuringTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		target := run(s, part{name: "main", hook: execHook("long"), execTakes: time.Minute, diesAfter: fakecri.IgnoresTerm})
		k, second := New(Options{Runtime: s.Client(), Log: quiet}), make(chan error, 1)
		first, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		time.AfterFunc(time.Second, func() { second <- k.Kill(t.Context(), with(target, 20)) })
		if err := k.Kill(first, with(target, 60)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the caller's", err)
		}
		if err := errors.Join(k.Kill(t.Context(), with(target, 10)), <-second); err != nil {
			t.Error(err)
		}
		if n := len(s.Calls(fakecri.ExecSync)); n != 1 {
			t.Errorf("the hook was run %d times, want once", n)
		}
	})
}

// The next evictd finishes the kill, with the hook from its beginning.
func TestAnEvictdThatEndsDuringAHookStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		var log bytes.Buffer
		target := run(s, part{name: "side", sidecar: true}, part{name: "main", hook: execHook("long"), execTakes: 8 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if err := New(Options{Runtime: s.Client(), Log: logTo(&log)}).Kill(ctx, with(target, 60)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the caller's", err)
		}
		if took, stops := time.Since(began), s.Calls(fakecri.StopContainer, fakecri.StopPodSandbox); took != 5*time.Second || len(stops) != 0 || log.Len() != 0 {
			t.Errorf("took %v, stopped %v, said %q, want nothing of it", took, stops, log.String())
		}
		if err := New(Options{Runtime: s.Client(), Log: quiet}).Kill(t.Context(), with(target, 55)); err != nil {
			t.Fatal(err)
		}
		want := []string{"0s main runs long, 5 s", "5s main runs long, 55 s", "13s main stop, 47 s", "13s side stop, 47 s"}
		if diff := cmp.Diff(want, diary(s, began)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// containerd 1.6 may go on with a command that nobody waits for any more.
func TestARuntimeThatKeepsAHookRunningDelaysNoKill(t *testing.T) {
	s, reached := fakecri.Start(t), make(chan struct{})
	defer close(reached)
	target := run(s, part{name: "main", hook: execHook("hang")})
	s.Inject(fakecri.ExecSync, fakecri.Fault{Deaf: reached})
	conn, err := criclient.Dial(nodefs.FS{}, s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	began := time.Now()
	if err := New(Options{Runtime: runtimeapi.NewRuntimeServiceClient(conn), Log: quiet}).Kill(t.Context(), with(target, 1)); err != nil {
		t.Fatal(err)
	}
	stops := s.Calls(fakecri.StopContainer)
	if len(stops) != 1 || stops[0].Time.Sub(began) < time.Second || s.Running("u") {
		t.Errorf("stops %+v, running %v, want one when the second of the hook is over", stops, s.Running("u"))
	}
	if took := time.Since(began); took > 5*time.Second { // a second, on a machine that has time
		t.Errorf("took %v", took)
	}
}
