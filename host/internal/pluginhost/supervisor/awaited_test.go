package supervisor

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

func awaited(pass *registry.Pin, s eviction.Signal) error {
	defer pass.Release()
	return pass.MissingObserver(s)
}

// The host must tell a plugin that is broken from one that was never wanted.
func TestAPluginThatShouldObserveAndDoesNotRunIsNamed(t *testing.T) {
	dir := install(t, "good")
	for name, text := range map[string]string{"memory": "#!/bin/sh\nexit 3\n", "disk": "#!/bin/sh\nexit 3\n"} {
		testos.WriteFile(t, filepath.Join(dir, name), text, 0o600)
		testos.Chmod(t, filepath.Join(dir, name), 0o755)
	}
	h := startHost(t, dir, func(o *Options) { o.Settings = map[string]Settings{"disk": {Disabled: true}} })
	if err := awaited(h.Pin(), eviction.MemoryAvailable); err == nil {
		t.Error("nobody is awaited for memory.available, whose plugin is there and does not come up")
	} else {
		want(t, err.Error(), "plugin memory does not run", "exit status 3")
	}
	own := eviction.Signal("faulty.example/good")
	for s, why := range map[eviction.Signal]string{
		eviction.NodeFsAvailable: "its plugin is disabled",
		eviction.PIDAvailable:    "its plugin is not there",
		own:                      "its plugin runs",
		"faulty.example/other":   "nobody has ever observed it",
	} {
		if err := awaited(h.Pin(), s); err != nil {
			t.Errorf("%s: %v, but %s", s, err, why)
		}
	}
	if err := syscall.Kill(h.plugin("good").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the dead plugin is awaited", func() bool { return awaited(h.Pin(), own) != nil })
	eventually(t, "it is back", func() bool { return awaited(h.Pin(), own) == nil })
}

// Between the begin of a pass and its end a plugin may come up. What it observes is
// unknown in that pass, and not switched off: timers would be lost.
func TestAPluginThatComesUpDuringAPassIsAwaitedInIt(t *testing.T) {
	h := startHost(t, install(t, "good"))
	const own = "faulty.example/good"
	if err := syscall.Kill(h.plugin("good").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var pass *registry.Pin
	eventually(t, "a pass without the plugin", func() bool {
		pass = h.Pin()
		if len(pass.Instances()) == 0 {
			return true
		}
		pass.Release()
		return false
	})
	defer pass.Release()
	eventually(t, "it is back", func() bool { return awaited(h.Pin(), own) == nil && h.plugin("good").State == Running })
	if pass.MissingObserver(own) == nil {
		t.Error("in the pass that began without it the plugin is not awaited")
	}
}
