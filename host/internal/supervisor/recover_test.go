package supervisor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A plugin that died while its directory was away stayed refused for ever, and its
// signals counted as switched off.
func TestAPluginIsBackWithItsDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(privateDir(t), "plugins")
	if err := os.Rename(installed(t, "memory"), dir); err != nil {
		t.Fatal(err)
	}
	h := startHost(t, dir)
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	h.kill(h.plugin("memory").PID)
	eventually(t, "it cannot be started", func() bool { return h.plugin("memory").State == Refused })
	if awaited(h, eviction.MemoryAvailable) == nil {
		t.Error("nobody is awaited for memory.available, as if it had been switched off")
	}
	if err := os.Rename(dir+".old", dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs again", func() bool { return h.plugin("memory").State == Running })
}

// A node that is too slow to answer brought its plugins into quarantine.
func TestATimeoutAtTheStartIsNoCrash(t *testing.T) {
	t.Parallel()
	p := defaultPatience()
	p.crashes, p.first = 2, 10*time.Millisecond
	h := startPatient(t, p, install(t, "hangs-in-describe"), func(o *Options) { o.Timeouts.Describe = 50 * time.Millisecond })
	eventually(t, "it is tried again and again", func() bool { return h.plugin("hangs-in-describe").Restarts > 3 })
	if s := h.plugin("hangs-in-describe"); s.State == Quarantined {
		t.Errorf("%+v, want it tried again soon", s)
	}
}

// A rival of a plugin that came to be another one stayed refused.
func TestARivalIsFreeWhenTheOtherIsReplaced(t *testing.T) {
	t.Parallel()
	dir := installed(t, "rival-a", "rival-b")
	h := startHost(t, dir)
	for _, name := range []string{"rival-a", "rival-b"} {
		if s := h.plugin(name); s.State != Refused {
			t.Fatalf("%s is %s, want both refused", name, s.State)
		}
	}
	put(t, dir, "rival-a", "exits")
	eventually(t, "the other one serves", func() bool { return h.plugin("rival-b").State == Running })
}
