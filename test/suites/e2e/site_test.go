package e2e_test

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/agent"
)

const (
	mib = 1 << 20
	// maxWait is for what evictd is to do; it looks every interval.
	maxWait  = 45 * time.Second
	interval = "500ms"
	// transition is the period of conditions, long enough to be seen.
	transition = "2s"
)

// A site is a node: containerd on small filesystems, and evictd when it runs.
type site struct {
	*stack.Stack
	agent *evictd.Process
	log   journal
}

// An engine is a containerd to run: Debian's, or the one in a directory.
type engine struct{ name, programs string }

// debian is the containerd of the distribution, modern the one that make e2e builds.
var debian = engine{name: "containerd 1.6"}

func modern(t *testing.T) engine {
	t.Helper()
	dir := os.Getenv("EVICTD_CONTAINERD")
	if dir == "" {
		t.Fatal("EVICTD_CONTAINERD is not set: make e2e builds containerd v2 and names its directory there")
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "containerd"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return engine{"containerd v2", dir}
}

func require(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_E2E") != "1" {
		t.Skip("needs root, containers and loop devices: run make e2e")
	}
	missing := stack.Preflight()
	if _, err := os.Stat("/dev/loop-control"); missing == nil {
		missing = err
	}
	if missing == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("this machine cannot run it: %v", missing)
	}
	t.Skipf("SKIPPED, NOTHING TESTED: this machine cannot run it: %v", missing)
}

// newSite starts a node.
func newSite(t *testing.T, o stack.Options) *site {
	t.Helper()
	require(t)
	o.Name = "evictd-e2e"
	s, err := stack.Start(t.Context(), o)
	must(t, err)
	n := &site{Stack: s}
	t.Cleanup(func() {
		if t.Failed() && n.agent != nil {
			t.Logf("the end of evictd's log:\n%s", n.agent.LogTail())
		}
		n.stop(t)
		must(t, s.Close())
	})
	return n
}

// start runs evictd with the plugins that make build made, and others.
func (n *site) start(t *testing.T, config map[string]any, others ...string) {
	t.Helper()
	options, err := agent.Built("../../../bin")
	must(t, err)
	full := map[string]any{
		"plugins":                          map[string]any{"disk": diskSettings(n.Stack)},
		"monitoringInterval":               interval,
		"evictionPressureTransitionPeriod": transition,
		"logLevel":                         "debug",
	}
	maps.Copy(full, config)
	n.log.clear()
	options.Plugins, options.Config, options.OnRecord = append(options.Plugins, others...), full, n.onRecord
	n.agent, err = agent.Start(t.Context(), n.Stack, options)
	must(t, err)
}

// diskSettings are the built-in disk plugin's.
func diskSettings(n *stack.Stack) map[string]any {
	return map[string]any{"config": map[string]any{
		"imageMinimumGCAge": "0s",
		"containerLogsDir":  filepath.Join(n.Dir, "containers"),
	}}
}

// onRecord also does a kubelet's work: a pod's directory goes when it is evicted.
func (n *site) onRecord(r evictd.Record) {
	n.log.add(r)
	if uid := r.String("uid"); r.Msg == "evicting pod" && r.Attrs["dryRun"] != true {
		// What is left shows in the figures. It stays on the filesystem: volumes may have mounts in them.
		_ = exec.Command("rm", "-rf", "--one-file-system", filepath.Join(n.KubeletRootDir, "pods", uid)).Run()
	}
}

// stop ends evictd, after the rest of its story.
func (n *site) stop(t *testing.T) {
	t.Helper()
	if n.agent == nil {
		return
	}
	n.log.print(t)
	err := n.agent.Stop()
	n.agent = nil
	if err != nil {
		t.Error(err)
	}
}

// kill ends evictd without a chance to say good-bye.
func (n *site) kill() {
	n.agent.Kill()
	n.agent = nil
}

// eventually waits until done reports true.
func eventually(t *testing.T, what string, done func() (bool, error)) {
	t.Helper()
	eventuallyWithin(t, maxWait, what, done)
}

func eventuallyWithin(t *testing.T, maxWait time.Duration, what string, done func() (bool, error)) {
	t.Helper()
	deadline := time.Now().Add(maxWait)
	for {
		ok, err := done()
		if ok && err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v it is still not so that %s: %v", maxWait, what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
