package cri

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/victim/processes"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// twoContainers adds a pod whose containers take 1 s and 3 s to end.
func twoContainers(s *fakecri.Server) pods.Pod {
	added := s.Add(fakecri.Pod{UID: "u", Namespace: "ns", Name: "pod", Containers: []fakecri.Container{
		{Name: "fast", DiesAfter: time.Second}, {Name: "slow", DiesAfter: 3 * time.Second},
	}})
	return parts([]string{added.SandboxID}, added.ContainerIDs)
}

func parts(sandboxes, containers []string) pods.Pod {
	return pods.Pod{SandboxIDs: sandboxes, ContainerIDs: containers}
}

// with returns the pod "u" as a victim with so long a grace period.
func with(pod pods.Pod, graceSeconds int64) victim.Victim {
	return victim.Victim{Kill: victim.Kill{UID: "u", GraceSeconds: graceSeconds}, Pod: pod}
}

func finished(t *testing.T, k *Killer, uid string) bool {
	t.Helper()
	done, err := k.Finished(t.Context(), victim.Victim{Kill: victim.Kill{UID: uid}})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestKillStopsContainersTogetherAndThenTheSandbox(t *testing.T) {
	for name, grace := range map[string]struct {
		seconds int64
		took    time.Duration
	}{
		"all mind SIGTERM":             {seconds: 10, took: 3 * time.Second},
		"the slow one is killed":       {seconds: 2, took: 2 * time.Second},
		"no grace, all die at once":    {seconds: 0},
		"less than none is none":       {seconds: -1},
		"the kubelet's for a hard one": {seconds: 1, took: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fakecri.New()
				target, k := twoContainers(s), New(Options{Runtime: s.Client(), Log: quiet})
				if finished(t, k, "u") {
					t.Error("finished before the kill")
				}
				started := time.Now()
				if err := k.Kill(t.Context(), with(target, grace.seconds)); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(started); took != grace.took {
					t.Errorf("took %v, want %v", took, grace.took)
				}
				stops := s.Calls(fakecri.StopContainer)
				if len(stops) != 2 || !stops[0].Time.Equal(stops[1].Time) || stops[0].Timeout != max(grace.seconds, 0) {
					t.Errorf("stops %+v, want two at the same time with the grace period", stops)
				}
				if len(s.Calls(fakecri.StopPodSandbox)) != 1 || !finished(t, k, "u") {
					t.Error("sandbox was not stopped")
				}
				if err := k.Kill(t.Context(), with(target, grace.seconds)); err != nil {
					t.Errorf("killing what is dead: %v", err)
				}
			})
		})
	}
}

func TestARestartedHostFindsThePodByItsUID(t *testing.T) {
	for name, unlabeled := range map[string]bool{"with labels": false, "without labels": true} {
		t.Run(name, func(t *testing.T) {
			s := fakecri.New()
			s.Add(fakecri.Pod{UID: "u", Unlabeled: unlabeled, Containers: []fakecri.Container{{Name: "a"}, {Name: "b", Created: true}, {Name: "c", Exited: true}, {Name: "d", Lost: true}}})
			s.Add(fakecri.Pod{UID: "other", Unlabeled: unlabeled, Containers: []fakecri.Container{{Name: "a"}}})
			k := New(Options{Runtime: s.Client(), Log: quiet})
			if err := k.Kill(t.Context(), with(pods.Pod{}, 0)); err != nil {
				t.Fatal(err)
			}
			var stopped []string
			for _, c := range s.Calls(fakecri.StopContainer) {
				stopped = append(stopped, c.ID)
			}
			slices.Sort(stopped)
			if got := strings.Join(stopped, " "); got != "a-2 b-3 d-5" {
				t.Errorf("stopped %q, want all of this pod that did not exit", got)
			}
			if !finished(t, k, "u") || finished(t, k, "other") {
				t.Error("want this pod finished and the other not")
			}
		})
	}
}

func TestWhatIsNotFoundIsGone(t *testing.T) {
	s := fakecri.New()
	k := New(Options{Runtime: s.Client(), Log: quiet})
	if err := k.Kill(t.Context(), with(parts([]string{"s"}, []string{"c"}), 1)); err != nil {
		t.Errorf("kill: %v", err)
	}
	if err := k.Kill(t.Context(), with(pods.Pod{}, 1)); err != nil {
		t.Errorf("kill by uid: %v", err)
	}
	if !finished(t, k, "u") {
		t.Error("a pod that the runtime does not know is not finished")
	}
}

func TestAFailedCallIsNamedAndTheSandboxStillGoes(t *testing.T) {
	s := fakecri.New()
	target := twoContainers(s)
	s.Inject(fakecri.StopContainer, fakecri.Fault{ID: target.ContainerIDs[1], Err: status.Error(codes.Internal, "shim is stuck")})
	k := New(Options{Runtime: s.Client(), Log: quiet})
	err := k.Kill(t.Context(), with(parts(target.SandboxIDs, target.ContainerIDs[1:]), 1))
	if err == nil || !strings.Contains(err.Error(), "stop container "+target.ContainerIDs[1]) || !strings.Contains(err.Error(), "shim is stuck") {
		t.Errorf("error %v, want the call, the container and the cause", err)
	}
	if !finished(t, k, "u") {
		t.Error("the sandbox, and with it the container, was not stopped")
	}
}

// containerd 1.6 answered an error for a container that had ended by itself, and
// the log said "pod not killed" of a pod that was gone.
func TestAContainerThatEndsByItselfMeanwhileIsKilled(t *testing.T) {
	s := fakecri.New()
	gone := s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "main", Exited: true}}})
	s.Inject(fakecri.StopContainer, fakecri.Fault{Err: status.Error(codes.Unknown, "failed to kill container: ttrpc: closed")})
	err := New(Options{Runtime: s.Client(), Log: quiet}).Kill(t.Context(), with(parts([]string{gone.SandboxID}, gone.ContainerIDs), 1))
	if err != nil {
		t.Errorf("error %v, want none", err)
	}
}

func TestARuntimeThatIsAwayIsAskedAgainWithWhatIsLeftOfTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		target := twoContainers(s)
		away := fakecri.Fault{Err: status.Error(codes.Unavailable, "connection refused")}
		s.Inject(fakecri.StopContainer, away)
		k, result := New(Options{Runtime: s.Client(), Log: quiet}), make(chan error, 1)
		go func() { result <- k.Kill(t.Context(), with(target, 30)) }()
		<-time.After(5500 * time.Millisecond)
		s.Heal()
		if err := <-result; err != nil {
			t.Fatal(err)
		}
		calls := s.Calls(fakecri.StopContainer)
		if first, last := calls[0], calls[len(calls)-1]; first.Timeout != 30 || last.Timeout > 25 || last.Timeout < 23 {
			t.Errorf("grace %d at first and %d in the end, want 30 and about 24", first.Timeout, last.Timeout)
		}
		if n := len(calls); n < 10 || n > 60 {
			t.Errorf("asked %d times in 5.5 s, want a short pause that grows to half a second", n)
		}
	})
}

func TestAKillThatTakesTooLong(t *testing.T) {
	for name, c := range map[string]struct {
		fault fakecri.Fault
		said  string
	}{
		"the runtime hangs":        {fault: fakecri.Fault{Hang: true}, said: "DeadlineExceeded"},
		"the runtime is not there": {fault: fakecri.Fault{Err: status.Error(codes.Unavailable, "connection refused")}, said: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fakecri.New()
				target := twoContainers(s)
				s.Inject(fakecri.StopContainer, c.fault)
				started := time.Now()
				err := New(Options{Runtime: s.Client(), Log: quiet}).Kill(t.Context(), with(target, 20))
				if !errors.Is(err, victim.ErrTimeout) || time.Since(started) != 30*time.Second {
					t.Errorf("error %v after %v, want ErrTimeout after 30s", err, time.Since(started))
				}
				for _, want := range []string{"stop container " + target.ContainerIDs[0], "timeout waiting to kill pod", c.said} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("error %v, want %q in it", err, want)
					}
				}
			})
		})
	}
}

// On a node that stood still the call to stop a container ended with the time of its
// kill, and with it the runtime's intention to send SIGKILL: the pod was given up, and ran on.
func TestAKillThatTookTooLongIsFinished(t *testing.T) {
	hang := fakecri.Fault{Hang: true}
	for name, c := range map[string]struct {
		hangs fakecri.Method
		most  time.Duration // after the runtime is well again; a list that hangs is given up after 30 s
	}{
		"the container is late":          {fakecri.StopContainer, 0},
		"the sandbox takes its time":     {fakecri.StopPodSandbox, 0},
		"the runtime does not even list": {fakecri.ListContainers, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fakecri.New()
				s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "late", DiesAfter: time.Hour}}})
				k := New(Options{Runtime: s.Client(), Log: quiet})
				s.Inject(c.hangs, hang)
				if err := k.Kill(t.Context(), with(pods.Pod{}, 1)); !errors.Is(err, victim.ErrTimeout) {
					t.Fatalf("kill: %v, want ErrTimeout", err)
				}
				s.Heal()
				healed := time.Now()
				if !finished(t, k, "u") || s.Running("u") {
					t.Error("not finished when the runtime is well again")
				}
				if took := time.Since(healed); took > c.most {
					t.Errorf("took %v, want %v at most: its grace is over", took, c.most)
				}
				if !finished(t, New(Options{Runtime: s.Client(), Log: quiet}), "u") {
					t.Error("the sandbox is still ready")
				}
			})
		})
	}
}

// A hard threshold may shorten the grace of a soft victim, whichever kill ends first.
func TestOfTwoKillsThatWereBrokenOffTheShorterGraceCounts(t *testing.T) {
	for name, graces := range map[string][]int64{"the shorter one first": {10, 40}, "the longer one first": {40, 10}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fakecri.New()
				s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "main", DiesAfter: time.Hour}}})
				s.Inject(fakecri.StopContainer, fakecri.Fault{Hang: true})
				k := New(Options{Runtime: s.Client(), Log: quiet})
				for _, grace := range graces {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					if err := k.Kill(ctx, with(pods.Pod{}, grace)); err == nil {
						t.Error("killed, want it broken off")
					}
					cancel()
				}
				s.Heal()
				began := time.Now()
				if !finished(t, k, "u") {
					t.Error("not finished")
				}
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("took %v, want what is left of 10 s", took)
				}
			})
		})
	}
}

// A kill that was given up on cut the grace of the pod's next eviction, long after.
func TestAKillThatWasGivenUpOnIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "main", DiesAfter: time.Hour}}})
		s.Inject(fakecri.StopContainer, fakecri.Fault{Hang: true})
		k := New(Options{Runtime: s.Client(), Log: quiet})
		if err := k.Kill(t.Context(), with(pods.Pod{}, 1)); !errors.Is(err, victim.ErrTimeout) {
			t.Errorf("error %v, want ErrTimeout", err)
		}
		time.Sleep(staleAfter)
		go func() { _ = k.Kill(t.Context(), with(pods.Pod{}, 30)) }()
		time.Sleep(time.Second)
		s.Heal()
		if finished(t, k, "u") || len(s.Calls(fakecri.StopPodSandbox)) != 0 {
			t.Error("the sandbox is stopped in the grace of another kill")
		}
	})
}

// What is known of a pod stayed for ever if no look saw its end, or if containers were stopped directly.
func TestAPodWhoseEndIsNotSeenIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		for _, uid := range []string{"u", "long"} {
			s.Add(fakecri.Pod{UID: uid, Containers: []fakecri.Container{{Name: "main", DiesAfter: time.Hour}}})
		}
		s.Inject(fakecri.StopContainer, fakecri.Fault{Hang: true, Times: 1})
		k := New(Options{Runtime: s.Client(), Log: quiet})
		if err := k.Kill(t.Context(), with(pods.Pod{}, 1)); !errors.Is(err, victim.ErrTimeout) {
			t.Errorf("error %v, want ErrTimeout", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := k.StopContainers(ctx, victim.Victim{Kill: victim.Kill{UID: "direct"}}, []string{"d"}, time.Now()); err != nil {
			t.Error(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = k.Kill(ctx, victim.Victim{Kill: victim.Kill{UID: "long", GraceSeconds: 300}})
		}()
		time.Sleep(staleAfter)
		if finished(t, k, "other"); len(k.pods) != 3 {
			t.Errorf("after a minute %v are known, want all three", k.pods)
		}
		time.Sleep(time.Second)
		if finished(t, k, "other"); len(k.pods) != 1 || k.pods["long"] == nil {
			t.Errorf("then %v are known, want the one whose kill is under way", k.pods)
		}
		cancel()
		<-ended
	})
}

func TestAKillThatWasBrokenOffLeavesThePodItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "main", DiesAfter: time.Hour}}})
		k := New(Options{Runtime: s.Client(), Log: quiet})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		err := k.Kill(ctx, with(pods.Pod{}, 20))
		brokenOff := time.Now()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, victim.ErrTimeout) || brokenOff.Sub(began) != 5*time.Second {
			t.Fatalf("error %v after %v, want the caller's after 5 s", err, brokenOff.Sub(began))
		}
		if !finished(t, k, "u") {
			t.Error("not finished")
		}
		if took := time.Since(brokenOff); took != 15*time.Second {
			t.Errorf("took %v, want the 15 s that are left", took)
		}
	})
}

func TestASandboxThatCannotBeStoppedIsTriedAgain(t *testing.T) {
	s := fakecri.New()
	s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "main"}}})
	k := New(Options{Runtime: s.Client(), Log: quiet})
	s.Inject(fakecri.StopPodSandbox, fakecri.Fault{Err: status.Error(codes.Internal, "network is stuck"), Times: 2})
	if err := k.Kill(t.Context(), with(pods.Pod{}, 0)); err == nil || !strings.Contains(err.Error(), "network is stuck") {
		t.Errorf("kill: %v, want the runtime's words", err)
	}
	if done, err := k.Finished(t.Context(), victim.Victim{Kill: victim.Kill{UID: "u"}}); done || err == nil || !strings.Contains(err.Error(), "stop pod sandbox") {
		t.Errorf("Finished: %v, %v, want an error that names the call", done, err)
	}
	if !finished(t, k, "u") {
		t.Error("not finished when the runtime is well again")
	}
}

// A question about a pod that nobody killed, as in a dry run, must not end it.
func TestFinishedDoesNotStopWhatWasNotKilled(t *testing.T) {
	s := fakecri.New()
	s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "done", Exited: true}}})
	if finished(t, New(Options{Runtime: s.Client(), Log: quiet}), "u") || len(s.Calls(fakecri.StopPodSandbox)) != 0 {
		t.Error("the sandbox of a pod that was not killed was stopped")
	}
}

func TestARuntimeThatDiesInTheMiddleOfAKillAndComesBack(t *testing.T) {
	s := fakecri.Start(t)
	added := s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "c", DiesAfter: time.Millisecond}}})
	conn, err := criclient.Dial(nodefs.FS{}, s.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	k := New(Options{Runtime: runtimeapi.NewRuntimeServiceClient(conn), Log: quiet})
	s.Inject(fakecri.StopContainer, fakecri.Fault{Die: true, Times: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		result <- k.Kill(ctx, with(parts([]string{added.SandboxID}, added.ContainerIDs), 10))
	}()
	if err := s.Await(ctx, fakecri.StopContainer, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Revive(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	if s.Running("u") || len(s.Calls(fakecri.StopContainer)) != 2 {
		t.Errorf("running %v after calls %+v, want it killed by the second", s.Running("u"), s.Calls())
	}
}

func TestFinishedDoesNotGuess(t *testing.T) {
	s := fakecri.New()
	s.Inject(fakecri.ListContainers, fakecri.Fault{Err: status.Error(codes.Unavailable, "connection refused")})
	if done, err := New(Options{Runtime: s.Client(), Log: quiet}).Finished(t.Context(), victim.Victim{Kill: victim.Kill{UID: "u"}}); done || err == nil || !strings.Contains(err.Error(), "containers") {
		t.Errorf("Finished: %v, %v, want an error that names the call", done, err)
	}
}

// The directories of a pod may outlive its volumes, as they do in a kubelet.
func TestAVictimIsCleanedUpWhenItsVolumesAreGone(t *testing.T) {
	dir := t.TempDir()
	v := victim.Victim{Kill: victim.Kill{UID: "uid-1"}}
	volume := filepath.Join(dir, "uid-1", "volumes", "kubernetes.io~empty-dir", "data")
	k := New(Options{PodsDir: func() string { return dir }})
	want := func(is bool) {
		t.Helper()
		if got, err := k.CleanedUp(t.Context(), v); got != is || err != nil {
			t.Errorf("cleaned up: %v, %v, want %v", got, err, is)
		}
	}
	want(true) // it never had any
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	want(false)
	if err := os.Remove(volume); err != nil {
		t.Fatal(err)
	}
	want(true)

	ended, end := context.WithCancel(t.Context())
	end()
	if got, err := k.CleanedUp(ended, v); got && err != nil {
		t.Errorf("cleaned up with an error: %v", err)
	}
}

// cgroupsOf kills processes in the cgroup of the pod "u", as files, whose containers have these.
func cgroupsOf(t *testing.T, processesOf map[string]*exec.Cmd) *processes.Killer {
	t.Helper()
	root := t.TempDir()
	memory := filepath.Join(root, "sys/fs/cgroup/memory")
	write := func(name, content string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(memory, "memory.usage_in_bytes"), "1\n")
	write(filepath.Join(memory, "kubepods/besteffort/podu/cgroup.procs"), "")
	for id, c := range processesOf {
		text := ""
		if c != nil {
			text = strconv.Itoa(c.Process.Pid) + "\n"
		}
		write(filepath.Join(memory, "kubepods/besteffort/podu", id, "cgroup.procs"), text)
	}
	return processes.New(processes.Options{FS: nodefs.FS{Root: root}, Root: "/", Driver: func() string { return nodefs.Cgroupfs }, Log: quiet})
}

func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
	return c
}

// A runtime that is asked to stop a container and does nothing keeps the node waiting for its
// memory: at the end of the grace period the container's processes die all the same, and
// the runtime is asked to stop sandbox and containers as ever.
func TestProcessesDieWhenTheGraceIsOverWhateverTheRuntimeDoes(t *testing.T) {
	s := fakecri.New()
	added := s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "a"}, {Name: "b"}}})
	a, b, sandbox := sleeper(t), sleeper(t), sleeper(t)
	died := make(chan struct{})
	s.Inject(fakecri.StopContainer, fakecri.Fault{Until: died})
	k := New(Options{Runtime: s.Client(), Log: quiet, Processes: cgroupsOf(t, map[string]*exec.Cmd{
		added.ContainerIDs[0]: a, added.ContainerIDs[1]: b, added.SandboxID: sandbox,
	})})
	began, killed := time.Now(), make(chan error, 1)
	go func() { killed <- k.Kill(t.Context(), with(parts([]string{added.SandboxID}, added.ContainerIDs), 1)) }()
	a.Wait()
	b.Wait()
	if took := time.Since(began); took < time.Second {
		t.Errorf("killed after %v, before the grace period was over", took)
	}
	close(died)
	if err := <-killed; err != nil {
		t.Error(err)
	}
	if stops := s.Calls(fakecri.StopContainer); len(stops) != 2 || len(s.Calls(fakecri.StopPodSandbox)) != 1 {
		t.Errorf("calls %+v, want the containers and the sandbox stopped", s.Calls())
	}
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(sandbox.Process.Pid, &status, syscall.WNOHANG, nil); pid != 0 || err != nil {
		t.Errorf("the sandbox's process: %v, %v, want it left to the runtime", status, err)
	}
}

// With gVisor or Kata the sandbox has all processes, and the container's cgroup is empty: while the
// runtime hung the pod stayed alive, without a line in the log.
func TestAllProcessesOfAPodDieIfTheRuntimeStopsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		stop  func(context.Context, *Killer, victim.Victim, []string) error
		known bool
		fault fakecri.Fault
	}{
		"the calls hang":            {kill, true, fakecri.Fault{Hang: true}},
		"the calls fail":            {kill, true, fakecri.Fault{Err: status.Error(codes.Unknown, "broken")}},
		"only the uid is known":     {kill, false, fakecri.Fault{Hang: true}},
		"only containers are asked": {stopContainers, true, fakecri.Fault{Hang: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fakecri.New()
			added := s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "a"}}})
			sandbox := sleeper(t)
			for _, m := range []fakecri.Method{fakecri.StopContainer, fakecri.StopPodSandbox, fakecri.ListContainers} {
				s.Inject(m, c.fault)
			}
			var log lockedBuffer
			k := New(Options{Runtime: s.Client(), Log: slog.New(slog.NewTextHandler(&log, nil)), Processes: cgroupsOf(t, map[string]*exec.Cmd{added.SandboxID: sandbox})})
			target := pods.Pod{}
			if c.known {
				target = parts([]string{added.SandboxID}, added.ContainerIDs)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended, began := make(chan struct{}), time.Now()
			go func() {
				defer close(ended)
				_ = c.stop(ctx, k, with(target, 1), added.ContainerIDs)
			}()
			_ = sandbox.Wait()
			if took := time.Since(began); took < time.Second || took > 1*time.Second+podMargin+time.Second {
				t.Errorf("killed after %v, want soon after the grace period of 1s", took)
			}
			for deadline := began.Add(10 * time.Second); !strings.Contains(log.String(), "processes killed") && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond) // until their memory is released
			}
			cancel()
			<-ended
			k.Lister.Close()
			if text := log.String(); !strings.Contains(text, "processes killed") {
				t.Errorf("log: %s", text)
			}
		})
	}
}

func kill(ctx context.Context, k *Killer, v victim.Victim, _ []string) error { return k.Kill(ctx, v) }

func stopContainers(ctx context.Context, k *Killer, v victim.Victim, ids []string) error {
	return k.StopContainers(ctx, v, ids, time.Now().Add(time.Second))
}

// A pod of which there is nothing to kill was given up without a word.
func TestAPodWithoutProcessesToKillIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		uid  string
		want string
	}{
		"its cgroup is elsewhere": {"elsewhere", "podelsewhere"},
		"its cgroup is empty":     {"u", "kubepods/besteffort/podu"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fakecri.New()
			added := s.Add(fakecri.Pod{UID: c.uid, Containers: []fakecri.Container{{Name: "a"}}})
			s.Inject(fakecri.StopContainer, fakecri.Fault{Hang: true})
			var log lockedBuffer
			k := New(Options{Runtime: s.Client(), Log: slog.New(slog.NewTextHandler(&log, nil)), Processes: cgroupsOf(t, map[string]*exec.Cmd{"empty": nil})})
			v := with(parts([]string{added.SandboxID}, added.ContainerIDs), 0)
			v.UID = c.uid
			ctx, cancel := context.WithTimeout(t.Context(), podMargin+500*time.Millisecond)
			defer cancel()
			_ = k.Kill(ctx, v)
			if text := log.String(); !strings.Contains(text, "no process of the pod found to kill") || !strings.Contains(text, c.want) {
				t.Errorf("log: %s", text)
			}
		})
	}
}

// A lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Memory that is not given back, as of a process that waits for a disk, kept the sandbox from
// being stopped although its container was.
func TestProcessesThatCannotBeReleasedDoNotHoldUpTheRest(t *testing.T) {
	s := fakecri.New()
	added := s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "a"}}})
	root := t.TempDir()
	procs := filepath.Join(root, "sys/fs/cgroup/memory/kubepods/besteffort/podu", added.ContainerIDs[0], "cgroup.procs")
	if err := errors.Join(os.MkdirAll(filepath.Dir(procs), 0o755), syscall.Mkfifo(procs, 0o600),
		os.WriteFile(filepath.Join(root, "sys/fs/cgroup/memory/memory.usage_in_bytes"), []byte("1\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	k := New(Options{Runtime: s.Client(), Log: quiet, Processes: processes.New(processes.Options{
		FS: nodefs.FS{Root: root}, Root: "/", Driver: func() string { return nodefs.Cgroupfs }, Log: quiet,
	})})
	reached := make(chan struct{})
	s.Inject(fakecri.StopContainer, fakecri.Fault{Until: reached})
	go func() { // it reads, and hears nothing
		w, err := os.OpenFile(procs, os.O_WRONLY, 0)
		close(reached)
		if err == nil {
			t.Cleanup(func() { _ = w.Close() })
		}
	}()
	if err := k.Kill(t.Context(), with(parts([]string{added.SandboxID}, added.ContainerIDs), 0)); err != nil || len(s.Calls(fakecri.StopPodSandbox)) != 1 {
		t.Errorf("%v, calls %+v, want the sandbox stopped", err, s.Calls())
	}
}

// The processes of a container whose cgroup is elsewhere were left alone without a word. One whose pod had been
// killed was reported while a slow runtime still listed it.
func TestAContainerWhoseCgroupIsNotFoundIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		found, dead bool
		want        int
	}{"elsewhere": {want: 1}, "where it should be": {found: true}, "its pod has no process": {dead: true}} {
		t.Run(name, func(t *testing.T) {
			s := fakecri.New()
			added := s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "a"}, {Name: "b"}}})
			cgroups := map[string]*exec.Cmd{added.SandboxID: sleeper(t)}
			if c.found {
				cgroups[added.ContainerIDs[0]], cgroups[added.ContainerIDs[1]] = sleeper(t), sleeper(t)
			}
			logged := make(chan string, 10)
			reached := make(chan struct{})
			s.Inject(fakecri.StopContainer, fakecri.Fault{Until: reached})
			log := slog.New(slog.NewTextHandler(lines(logged), nil))
			lister := criclient.NewLister(s.Client(), func() (map[string]func() nodefs.PodProcesses, error) {
				return map[string]func() nodefs.PodProcesses{"u": func() nodefs.PodProcesses { return nodefs.PodProcesses{Running: !c.dead} }}, nil
			})
			k := New(Options{Runtime: s.Client(), Lister: lister, Log: log, Processes: cgroupsOf(t, cgroups)})
			killed := make(chan error, 1)
			go func() { killed <- k.Kill(t.Context(), with(parts([]string{added.SandboxID}, added.ContainerIDs), 1)) }()
			time.AfterFunc(1500*time.Millisecond, func() { close(reached) })
			if err := <-killed; err != nil {
				t.Error(err)
			}
			close(logged)
			n := 0
			for line := range logged {
				if strings.Contains(line, "level=WARN") && strings.Contains(line, "cgroup of a container not found") {
					n++
				}
			}
			if n != c.want {
				t.Errorf("told %d times, want %d", n, c.want)
			}
		})
	}
}

// lines has each line that is logged.
type lines chan<- string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// A container that ends in time is left to itself.
func TestProcessesHaveTheirGrace(t *testing.T) {
	s := fakecri.New()
	added := s.Add(fakecri.Pod{UID: "u", Containers: []fakecri.Container{{Name: "a"}}})
	a := sleeper(t)
	k := New(Options{Runtime: s.Client(), Log: quiet, Processes: cgroupsOf(t, map[string]*exec.Cmd{added.ContainerIDs[0]: a})})
	if err := k.Kill(t.Context(), with(parts([]string{added.SandboxID}, added.ContainerIDs), 30)); err != nil {
		t.Error(err)
	}
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(a.Process.Pid, &status, syscall.WNOHANG, nil); pid != 0 || err != nil {
		t.Errorf("process of a container that the runtime has stopped: %v, %v, want it untouched", status, err)
	}
}

// A pod whose sandbox had died counted as gone although its container could not be stopped,
// and the next victim went.
func TestAContainerWithoutASandboxThatCannotBeStoppedIsNotGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		target := twoContainers(s)
		s.Inject(fakecri.StopContainer, fakecri.Fault{ID: target.ContainerIDs[1], Times: 2, Err: status.Error(codes.Internal, "shim is stuck")})
		k := New(Options{Runtime: s.Client(), Log: quiet})
		if err := k.Kill(t.Context(), with(parts(nil, target.ContainerIDs[1:]), 1)); err == nil {
			t.Error("no error")
		}
		if k.pods["u"].graceEnds.IsZero() {
			t.Error("the kill is not continued")
		}
	})
}
