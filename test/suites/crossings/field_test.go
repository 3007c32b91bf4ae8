package crossings_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/agent"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

// A scope names the memory whose threshold is crossed: that of all pods or of the node.
type scope struct {
	signal string
	// distanceMiB is the distance of the threshold below the available memory without a hog,
	// and beyondMiB the memory that a hog takes below the threshold.
	distanceMiB, beyondMiB int
	// shared says that others on this machine take from the same memory.
	shared bool
	// programs is the directory of the containerd to run, "" for Debian's.
	programs string
}

var (
	ofPods = scope{signal: "allocatableMemory.available", distanceMiB: 500, beyondMiB: 500}
	// A hog crosses even if others give back what they had when it started, and
	// nothing is crossed when they take as much as ever before.
	ofNode = scope{signal: "memory.available", distanceMiB: 700, beyondMiB: 600, shared: true}
)

const (
	bystanderMiB = 64
	// spareMiB keeps the limit of all pods away from what they take.
	spareMiB = 256
	// measured is the time for which the available memory is sampled for the threshold.
	measured = 2 * time.Second
	// unmetBytes is the threshold that evictd starts with.
	unmetBytes = "1"
)

// A field is shared by all rounds: one stack, one evictd, one sampler and a pod that there is
// no reason to touch.
type field struct {
	scope
	stack     *stack.Stack
	agent     *evictd.Process
	watch     *crossing.Watch
	bystander *stack.Pod
	witness   hog.Station
	threshold int64
	// pods and victims so far; short is a sample below the threshold while no hog
	// was there.
	pods, victims int
	short         crossing.Sample
	once          sync.Once
}

// newField prepares the rounds; adapt, if there is one, changes the evictd of all of
// them.
func newField(t *testing.T, of scope, adapt func(*stack.Stack, *agent.Options)) *field {
	t.Helper()
	s, err := stack.Start(t.Context(), stack.Options{Name: "evictd-crossings", Programs: of.programs})
	must(t, err)
	f := &field{scope: of, stack: s}
	t.Cleanup(func() { f.close(t) })
	program, err := hog.Install(t.Context(), s)
	must(t, err)
	must(t, hog.WarmUp(t.Context(), s, program, f.distanceMiB+f.beyondMiB))
	f.bystander, f.witness = f.run(t, "bystander", bystanderMiB, 400, map[string]string{"cpu": "100m", "memory": "128Mi"})
	group := crossing.Node
	if !f.shared {
		group = crossing.Pods(s)
		must(t, s.LimitPods(int64(bystanderMiB+f.distanceMiB+f.beyondMiB+spareMiB)*mib))
	}
	f.watch, err = crossing.Start(t.Context(), s, group)
	must(t, err)
	f.startEvictd(t, adapt)
	f.setThreshold(t)
	return f
}

func (f *field) startEvictd(t *testing.T, adapt func(*stack.Stack, *agent.Options)) {
	t.Helper()
	options, err := agent.Built("../../../bin")
	must(t, err)
	options.Config = map[string]any{"evictionHard": map[string]string{f.signal: unmetBytes}, "monitoringInterval": "10s", "metricsBindAddress": "127.0.0.1:0"}
	if adapt != nil {
		adapt(f.stack, &options)
	}
	f.agent, err = agent.Start(t.Context(), f.stack, options)
	must(t, err)
}

// setThreshold sets the threshold below what is available now, with evictd, its
// plugins and the bystander running and whatever others take in their worst moment.
func (f *field) setThreshold(t *testing.T) {
	t.Helper()
	if _, err := f.witness.WaitStamp(t.Context(), "full"); err != nil {
		t.Fatal(err)
	}
	available, err := f.watch.Lowest(t.Context(), measured)
	must(t, err)
	f.threshold = available - int64(f.distanceMiB)*mib
	f.reload(t, strconv.FormatInt(f.threshold, 10))
	t.Logf("%s: %d MiB available with evictd and its plugins, threshold %d MiB", f.signal, available/mib, f.threshold/mib)
}

// reload returns when evictd has the threshold.
func (f *field) reload(t *testing.T, threshold string) {
	t.Helper()
	inForce := func() int { return len(f.agent.Records("new configuration in force")) }
	before := inForce()
	must(t, agent.Reload(f.stack, f.agent, map[string]any{"evictionHard": map[string]string{f.signal: threshold}}))
	eventually(t, "new configuration in force", func() bool { return inForce() > before })
}

func (f *field) close(t *testing.T) {
	t.Helper()
	f.once.Do(func() {
		if f.agent != nil {
			if t.Failed() {
				t.Logf("the end of evictd's log:\n%s", f.agent.LogTail())
			}
			if err := f.agent.Stop(); err != nil {
				t.Error(err)
			}
		}
		if f.watch != nil {
			_ = f.watch.Stop() // at the end of the test its context ends first, and with it the sampler
		}
		if err := f.stack.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (f *field) bystanderLives(t *testing.T) {
	t.Helper()
	running, err := f.bystander.Running(t.Context())
	at, stampErr := f.witness.Stamps()
	if err != nil || stampErr != nil || !running || at["term"] != 0 {
		t.Errorf("the bystander: running %v (%v), SIGTERM at %d (%v); want it untouched", running, err, at["term"], stampErr)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
