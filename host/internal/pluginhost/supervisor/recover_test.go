package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// A plugin that died while its directory was away stayed refused for ever, and its
// signals counted as switched off.
func TestAPluginIsBackWithItsDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(privateDir(t), "plugins")
	testos.Rename(t, installed(t, "memory"), dir)
	h := startHost(t, dir)
	testos.Rename(t, dir, dir+".old")
	kill(t, h.plugin("memory").PID)
	eventually(t, "it cannot be started", func() bool { return h.plugin("memory").State == Refused })
	if awaited(h.Pin(), eviction.MemoryAvailable) == nil {
		t.Error("nobody is awaited for memory.available, as if it had been switched off")
	}
	testos.Rename(t, dir+".old", dir)
	eventually(t, "it runs again", func() bool { return h.plugin("memory").State == Running })
}

// A node that is too slow to answer brought its plugins into quarantine.
func TestATimeoutAtTheStartIsNoCrash(t *testing.T) {
	t.Parallel()
	p := defaultRestartPolicy()
	p.crashes, p.first = 2, 10*time.Millisecond
	h := startWithPolicy(t, p, install(t, "hangs-in-describe"), func(o *Options) { o.Timeouts.Describe = 50 * time.Millisecond })
	eventually(t, "it is tried again and again", func() bool { return h.plugin("hangs-in-describe").Restarts > 3 })
	if s := h.plugin("hangs-in-describe"); s.State == Quarantined {
		t.Errorf("%+v, want it tried again soon", s)
	}
}

// A file in the place of the sockets' directory counted as crashes of each plugin that
// died then: in quarantine it stayed away long after the directory was whole again.
func TestAHostWithoutItsDirectoryBringsNoPluginIntoQuarantine(t *testing.T) {
	t.Parallel()
	p := defaultRestartPolicy()
	p.hostFault = time.Millisecond
	h := startWithPolicy(t, p, install(t, "good"))
	breakSockets(t, h.sockets)
	kill(t, h.plugin("good").PID)
	eventually(t, "more starts fail than there are crashes to a quarantine", func() bool { return h.plugin("good").Restarts > 2*p.crashes })
	if s := h.plugin("good"); s.State == Quarantined {
		t.Errorf("%+v, want it tried again soon", s)
	}
	const fault = "the host cannot use its own directory: mkdir "
	want(t, h.plugin("good").LastError, fault, "not a directory")
	if n := strings.Count(h.log.String(), `"msg":"plugin did not start"`); n != 1 {
		t.Errorf("told %d times that it did not start, want once for the same reason", n)
	}
	want(t, h.log.String(), fault)
	mendSockets(t, h.sockets)
	eventually(t, "it runs again", func() bool { return h.plugin("good").State == Running })
	if s := h.plugin("good"); s.LastError != "" {
		t.Errorf("last error %q, want none of what is no more", s.LastError)
	}
}

// breakSockets puts a file in the place of the sockets' directory.
func breakSockets(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	testos.WriteFile(t, dir, "", 0o600)
}

// mendSockets makes the sockets' directory again.
func mendSockets(t *testing.T, dir string) {
	t.Helper()
	testos.Remove(t, dir)
	testos.Mkdir(t, dir, 0o711)
}
