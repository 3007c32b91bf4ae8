package kubernetes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A scene is one hog that evictd is to evict while something goes wrong.
type scene struct {
	*cluster.Cluster
	t       *testing.T
	config  map[string]any
	evictd  *evictd.Process
	lives   []*evictd.Process // of evictd, from the first to the last
	hog     *v1.Pod
	station hog.Station
}

// stage starts a hog that waits for its release.
func stage(t *testing.T, c *cluster.Cluster, calm *v1.Pod, name string, p *evictd.Process, config map[string]any) *scene {
	t.Helper()
	s := &scene{Cluster: c, t: t, config: config, evictd: p, lives: []*evictd.Process{p}}
	var spec string
	spec, s.station = newHog(t, c, name, 1536)
	s.hog = deploy(t, c, name, spec)
	awaitMeasured(soon(t), t, c, calm, s.hog)
	return s
}

// A moment is one of an eviction; until waits for it.
type moment struct {
	name  string
	until func(*scene) error
}

var moments = []moment{
	{"chosen", func(s *scene) error {
		_, err := s.evictd.Await(soon(s.t), func(r evictd.Record) bool {
			chosen := r.Msg == "evicting pod" || r.Msg == "finishing a kill that a former evictd decided on"
			return chosen && r.String("uid") == string(s.hog.UID)
		})
		return err
	}},
	{"journalled", (*scene).journalled},
	{"patched", func(s *scene) error {
		return s.seen(func(p *v1.Pod) bool { return p.Annotations["evictd.io/evicted"] != "" })
	}},
	{"told to end", func(s *scene) error {
		_, err := s.station.WaitStamp(soon(s.t), "term")
		return err
	}},
	{"ended", func(s *scene) error { return s.seen(ended) }},
}

// journalled waits until the journal has the eviction, or has had it.
func (s *scene) journalled() error {
	ctx := soon(s.t)
	for {
		kills, err := os.ReadDir(filepath.Join(s.config["runDir"].(string), "kills"))
		if err != nil || len(kills) > 0 {
			return err
		}
		if at, err := s.station.Stamps(); err == nil && at["term"] != 0 {
			return nil
		}
		if err := stack.Pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("wait for the journal: %w", err)
		}
	}
}

// hogEnded waits until the hog has no process. It may not have had a SIGTERM: with a hard
// threshold evictd does not wait for a runtime that is away.
func (s *scene) hogEnded() error {
	mount, _, err := stack.MemoryCgroup()
	ctx := soon(s.t)
	for err == nil {
		var left []byte
		containers, _ := filepath.Glob(filepath.Join(mount, crossing.Pods(s.Stack), "*", "pod"+string(s.hog.UID), "*", "cgroup.procs"))
		for _, file := range containers {
			processes, _ := os.ReadFile(file) // none if it is gone
			left = append(left, processes...)
		}
		if len(left) == 0 {
			return nil
		}
		err = stack.Pause(ctx, 5*time.Millisecond)
	}
	return fmt.Errorf("wait for the end of the hog: %w", err)
}

// seen waits until the API server shows the hog as it should be.
func (s *scene) seen(done func(*v1.Pod) bool) error {
	_, err := s.AwaitPod(soon(s.t), s.hog.Namespace, s.hog.Name, func(p *v1.Pod) (bool, error) { return p.UID == s.hog.UID && done(p), nil })
	return err
}

// A fault goes wrong; repaired, which may be nil, ends it once the hog has ended.
type fault struct {
	name   string
	strike func(*scene) (repaired func())
	// restarts: evictd or the runtime cannot go on before it has started again.
	restarts bool
}

var faults = []fault{
	{name: "evictd is killed", restarts: true, strike: func(s *scene) func() {
		s.evictd.Kill()
		s.evictd = startEvictd(s.t, s.Cluster, s.config)
		s.lives = append(s.lives, s.evictd)
		return nil
	}},
	{name: "the kubelet is killed", strike: restarted("kubelet")},
	{name: "containerd is killed", strike: restarted("containerd"), restarts: true},
	{name: "the API server is killed", strike: restarted("kube-apiserver")},
	{name: "etcd answers once in a second", strike: slowEtcd},
}

func restarted(part string) func(*scene) func() {
	return func(s *scene) func() {
		must(s.t, s.KillPart(soon(s.t), part))
		must(s.t, s.StartPart(soon(s.t), part))
		return nil
	}
}

// slowEtcd lets etcd run for a moment in each second.
func slowEtcd(s *scene) func() {
	pid := s.PID("etcd")
	stop, stopped := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for stop.Err() == nil {
			_ = unix.Kill(pid, unix.SIGSTOP) // it ends with the cluster, at the latest
			_ = stack.Pause(stop, time.Second)
			_ = unix.Kill(pid, unix.SIGCONT)
			_ = stack.Pause(stop, 20*time.Millisecond)
		}
	}()
	return func() {
		stopped()
		<-done
	}
}

// play releases the hog, lets the faults strike at their moments, and asks for what must be
// so after all of them: the hog has ended and its eviction is on record, and nobody else's.
func (s *scene) play(calm *v1.Pod, at []moment, faults []fault) {
	s.t.Helper()
	released := time.Now()
	end := s.awaitEnd()
	must(s.t, s.station.Release(soon(s.t)))
	var repairs []func()
	for i, m := range at {
		must(s.t, m.until(s))
		if repaired := faults[i].strike(s); repaired != nil {
			repairs = append(repairs, repaired)
		}
	}
	s.killedInTime(<-end, slices.ContainsFunc(faults, func(f fault) bool { return f.restarts }))
	for _, repaired := range repairs {
		defer repaired() // the record is to arrive all the same
	}
	victim := awaitPod(soon(s.t), s.t, s.Cluster, s.hog.Labels["app"], func(p *v1.Pod) bool {
		return p.UID == s.hog.UID && ended(p) && condition(p, v1.DisruptionTarget) != nil
	})
	s.t.Logf("  %.1f s after its release the API has its eviction: %s %s", time.Since(released).Seconds(), victim.Status.Phase, victim.Status.Reason)
	if victim.Status.Phase != v1.PodFailed || victim.Annotations["evictd.io/evicted"] == "" {
		s.t.Errorf("pod %s is %s, annotations %v", victim.Name, victim.Status.Phase, victim.Annotations)
	}
	awaitPod(soon(s.t), s.t, s.Cluster, s.hog.Labels["app"], func(p *v1.Pod) bool { return p.UID != s.hog.UID && p.Status.Phase == v1.PodRunning })
	s.toldOnce()
	spared(s.t, s.Cluster, calm, s.lives...)
}

// awaitEnd sends when the hog has ended, as Record.At has it.
func (s *scene) awaitEnd() <-chan int64 {
	end := make(chan int64, 1)
	go func() {
		if err := s.hogEnded(); err != nil {
			s.t.Error(err)
		}
		var now unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // a clock that there is
		end <- now.Nano()
	}()
	return end
}

// killedInTime fails the test unless the hog has ended 3 s after the decision that it goes, and as much more on a busy
// machine; restarts tells that evictd, or the runtime, had to start again first.
func (s *scene) killedInTime(end int64, restarts bool) {
	s.t.Helper()
	for _, p := range s.lives {
		for _, r := range p.Records("evicting pod") {
			took := time.Duration(end - r.At)
			most := 6 * time.Second
			if restarts {
				most += 10 * time.Second
			}
			s.t.Logf("  killed %.1f s after the decision", took.Seconds())
			if r.String("uid") == string(s.hog.UID) && took > most {
				s.t.Errorf("killed %v after the decision, want at most %v", took, most)
			}
		}
	}
}

// toldOnce fails the test unless the hog's eviction has one event, and one pod at most has taken its place. Where a kubelet has
// written over the eviction, a ReplicaSet sees a pod too many for a moment, and may delete the hog.
func (s *scene) toldOnce() {
	s.t.Helper()
	awaitEvent(soon(s.t), s.t, s.Cluster, s.hog, "Evicted")
	events, err := s.Client.CoreV1().Events(s.hog.Namespace).List(soon(s.t), metav1.ListOptions{FieldSelector: "reason=Evicted,involvedObject.uid=" + string(s.hog.UID)})
	must(s.t, err)
	pods, err := s.Client.CoreV1().Pods(s.hog.Namespace).List(soon(s.t), metav1.ListOptions{LabelSelector: "app=" + s.hog.Labels["app"]})
	must(s.t, err)
	if len(events.Items) != 1 || len(pods.Items) > 2 {
		s.t.Errorf("%d events of the eviction and %d pods, want 1, and no more than the hog with its replacement", len(events.Items), len(pods.Items))
	}
}

// evictd is killed at a step while the API server is away for 65 s, EVICTD_OUTAGES times (make nightly): each eviction is on
// record in the end, with its event, and nobody else goes.
func TestRecordsOutliveOutages(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("EVICTD_OUTAGES"))
	if rounds == 0 {
		t.Skip("outages of a minute are part of make nightly")
	}
	steps := []moment{moments[0], moments[1], moments[3], {"ended", (*scene).hogEnded}}
	eachScene(t, rounds, func(i int) string {
		return fmt.Sprintf("%d, evictd is killed when the victim is %s", i, steps[i%len(steps)].name)
	}, func(s *scene, i int, calm *v1.Pod) {
		must(s.t, s.KillPart(soon(s.t), "kube-apiserver"))
		back := time.After(65 * time.Second)
		end := s.awaitEnd()
		must(s.t, s.station.Release(soon(s.t)))
		must(s.t, steps[i%len(steps)].until(s))
		faults[0].strike(s)
		s.killedInTime(<-end, true)
		<-back
		must(s.t, s.StartPart(soon(s.t), "kube-apiserver"))
		began := time.Now()
		late, cancel := context.WithTimeout(s.t.Context(), 2*maxWait) // a kubelet asks it again after a minute at the latest
		defer cancel()
		victim := awaitPod(late, s.t, s.Cluster, s.hog.Labels["app"], func(p *v1.Pod) bool {
			return p.UID == s.hog.UID && ended(p) && condition(p, v1.DisruptionTarget) != nil
		})
		s.t.Logf("  the API has the eviction %.1f s after it is back: %s %s", time.Since(began).Seconds(), victim.Status.Phase, victim.Status.Reason)
		awaitPod(late, s.t, s.Cluster, s.hog.Labels["app"], func(p *v1.Pod) bool { return p.UID != s.hog.UID && p.Status.Phase == v1.PodRunning })
		s.toldOnce()
		spared(s.t, s.Cluster, calm, s.lives...)
	})
}

// spared fails the test if a pod that did nothing was chosen by an evictd, or does not run.
func spared(t *testing.T, c *cluster.Cluster, calm *v1.Pod, lives ...*evictd.Process) {
	t.Helper()
	for _, p := range lives {
		for _, r := range p.Records("evicting pod") {
			if r.String("uid") == string(calm.UID) {
				t.Errorf("evictd chose %s, which did nothing", r.String("pod"))
			}
		}
	}
	now, err := c.Client.CoreV1().Pods(calm.Namespace).Get(soon(t), calm.Name, metav1.GetOptions{})
	must(t, err)
	if now.UID != calm.UID || now.Status.Phase != v1.PodRunning {
		t.Errorf("pod %s, which did nothing, is %s: %s", now.Name, now.Status.Phase, now.Status.Message)
	}
}

// Whatever is killed or slow in the middle of an eviction: the hog ends, the API gets the
// eviction, and no second pod goes.
func TestAnEvictionOutlivesFaults(t *testing.T) {
	var at []moment
	var with []fault
	for _, m := range moments { // each step that evictd makes
		at, with = append(at, m), append(with, faults[0])
	}
	for _, f := range faults[1:] {
		at, with = append(at, moments[1]), append(with, f)
	}
	var played []int
	for i := range at {
		played = append(played, i)
	}
	if os.Getenv("EVICTD_NIGHTLY") == "" { // evictd, the kubelet and the API server once each
		played = []int{1, len(moments), len(moments) + 2}
	}
	playAll(t, len(played), func(i int) (string, []moment, []fault) {
		i = played[i]
		return with[i].name + " when the victim is " + at[i].name, at[i : i+1], with[i : i+1]
	})
}

// EVICTD_ROUNDS rounds of two faults at any moments (make nightly).
func TestAnEvictionOutlivesRandomFaults(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("EVICTD_ROUNDS"))
	if rounds == 0 {
		t.Skip("random rounds are part of make nightly")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("  seed %d", seed)
	playAll(t, rounds, func(i int) (string, []moment, []fault) {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		first := random.IntN(len(moments))
		at := []moment{moments[first], moments[first+random.IntN(len(moments)-first)]}
		with := []fault{faults[random.IntN(len(faults))], faults[random.IntN(len(faults))]}
		return fmt.Sprintf("%d: %s when the victim is %s, then %s when it is %s", i, with[0].name, at[0].name, with[1].name, at[1].name), at, with
	})
}

// playAll plays scenes one after the other, in one cluster.
func playAll(t *testing.T, n int, next func(i int) (name string, at []moment, with []fault)) {
	eachScene(t, n, func(i int) string {
		name, _, _ := next(i)
		return name
	}, func(s *scene, i int, calm *v1.Pod) {
		_, at, with := next(i)
		s.play(calm, at, with)
	})
}

// eachScene has n scenes played one after the other, in one cluster.
func eachScene(t *testing.T, n int, name func(i int) string, play func(s *scene, i int, calm *v1.Pod)) {
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	calm := deploy(t, c, "calm", sleeper())
	config := map[string]any{
		"mode": "kubernetes", "kubeconfig": account(t, c), "evictionPressureTransitionPeriod": "1s",
		"evictionHard": leaveToEvictd(t, c, kubelet), "runDir": filepath.Join(c.Dir, "evictd-run"),
	}
	for i := range n {
		t.Run(name(i), func(t *testing.T) {
			app := fmt.Sprintf("hog-%d", i)
			s := stage(t, c, calm, app, startEvictd(t, c, config), config)
			play(s, i, calm)
			must(t, s.evictd.Stop())
			_, err := c.Kubectl(soon(t), "", "delete", "deployment", app, "--cascade=foreground", "--wait")
			must(t, err)
		})
	}
}

// A pod one of whose images is being pulled, for which its kubelet hears nothing, is ended
// all the same.
func TestAPodWhoseImageIsBeingPulledIsEvicted(t *testing.T) {
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	leaveToEvictd(t, c, kubelet)
	available, err := crossing.Available()
	must(t, err)
	p := beside(t, c, account(t, c), map[string]any{
		"evictionHard": map[string]any{}, "evictionSoft": map[string]any{"memory.available": strconv.FormatInt(available-200<<20, 10)},
		"evictionSoftGracePeriod": map[string]any{"memory.available": "1s"}, "evictionMaxPodGracePeriod": 30,
	})
	// The threshold is met although others on the machine give memory back.
	must(t, c.Apply(t.Context(), fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: pulled, labels: {app: pulled}}
spec:
  hostNetwork: true
  containers:
  - {name: hog, image: %[1]s, imagePullPolicy: Never, command: [/bin/hog, --mib, "2560", --exit, "143"]}
  - {name: late, image: "%[2]s/never:1", imagePullPolicy: Always}
`, hog.Image, deafRegistry(t))))
	killed, err := p.Await(soon(t), func(r evictd.Record) bool { return r.Msg == "pod killed" && r.String("pod") == "default/pulled" })
	must(t, err)
	took, _ := killed.Attrs["tookSeconds"].(float64)
	t.Logf("  killed in %v s", took)
	if took > 5 { // two for the kubelet, and what a busy machine takes; its grace period is 30 s
		t.Errorf("killed in %v s, want at most 5 s", took)
	}
	victim := awaitPod(soon(t), t, c, "pulled", func(pod *v1.Pod) bool {
		return pod.Status.Phase == v1.PodFailed && condition(pod, v1.DisruptionTarget) != nil
	})
	t.Logf("  %s %s: %s", victim.Status.Phase, victim.Status.Reason, victim.Status.Message)
	must(t, p.Stop())
}

// deafRegistry accepts connections and never answers.
func deafRegistry(t *testing.T) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return l.Addr().String()
}
