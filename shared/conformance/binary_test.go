package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
)

// faultyProcess runs the checks on this test binary as a plugin with a fault.
func faultyProcess(t *testing.T, fault string, o Options) Report {
	t.Helper()
	o.Environment = []string{faultVariable + "=" + fault}
	o.Timeout = 2 * time.Minute // machines that test are busy
	r, err := Binary(t.Context(), testProgram(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSoundProcessPasses(t *testing.T) {
	plain := []string{"rank", "process"} // the calls are those with TLS
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		plain = nil
	}
	for name, o := range map[string]Options{
		"with TLS": {Reclaim: true, deadlineFactor: 4}, "without TLS": {Reclaim: true, NoTLS: true, deadlineFactor: 4, Only: plain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := faultyProcess(t, "none", o)
			for i := range r.Checks {
				if c := &r.Checks[i]; c.Result == Failed || c.Result == Note {
					t.Error(c)
				}
			}
		})
	}
}

func TestFaultyProcessesFailForTheRightReason(t *testing.T) {
	for fault, f := range processFaults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			if !whole() && !strings.HasPrefix(f.fails[0], "start") && !strings.HasPrefix(f.fails[0], "handshake") {
				t.Skip("takes seconds: run make test")
			}
			o := faultOptions(f.text, f.fails)
			o.NoTLS = fault == "no-health"
			if strings.HasPrefix(fault, "leaks-") {
				o.Only, o.Skip = singleCalls, nil // it grows with the calls of all
			}
			r := faultyProcess(t, fault, o)
			if err := judge(&r, f.text, f.fails...); err != nil {
				t.Error(err)
			}
		})
	}
}

// processFaults are the faults of beAPlugin. The first of fails must fail with text
// in what was seen; the others may.
var processFaults = map[string]struct {
	text  string
	fails []string
}{
	"exits":                   {text: "exit status 3); the end of its log:\nno reason to live", fails: []string{"start"}},
	"hello":                   {text: "hello", fails: []string{"handshake-line"}},
	"major-9":                 {text: "protocol major 9", fails: []string{"handshake-major"}},
	"net-rpc":                 {text: "netrpc", fails: []string{"handshake-protocol", "handshake-certificate"}},
	"tcp":                     {text: "tcp", fails: []string{"handshake-socket", "handshake-certificate"}},
	"other-dir":               {text: "want a unix socket directly in", fails: []string{"handshake-socket", "handshake-certificate"}},
	"bad-identity":            {text: "certificate is not DER", fails: []string{"handshake-certificate"}},
	"no-client-check":         {text: "no certificate", fails: []string{"handshake-certificate"}},
	"no-health":               {text: "Unimplemented", fails: []string{"health"}},
	"stays-by-hand":           {text: "runs on", fails: []string{"by-hand"}},
	"runs-by-hand":            {text: "handshake on standard output", fails: []string{"by-hand"}},
	"silent-by-hand":          {text: "nothing on standard error", fails: []string{"by-hand"}},
	"fails-at-sigterm":        {text: "exit status 3", fails: []string{"sigterm"}},
	"ignores-host":            {text: "without a host", fails: []string{"parent-pipe"}},
	"leaks-descriptors":       {text: "after the checks of rank", fails: []string{"descriptors"}},
	"leaks-memory":            {text: "after the checks of rank", fails: []string{"memory"}},
	"crashes-with-many":       {text: "too many pods for me", fails: []string{"rank-500", "rank-cancelled"}},
	"crashes-in-describe":     {text: "exit status 2); the end of its log:\npanic: I do not talk to strangers", fails: []string{"describe"}},
	"crashes-when-configured": {text: "nil pointer", fails: []string{"configure", "garbage-configure"}},
}

func TestWhatIsNoPluginIsAnError(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	testos.WriteFile(t, plain, "", 0o600)
	for path, want := range map[string]string{
		dir:                          "not a regular file",
		plain:                        "not executable",
		filepath.Join(dir, "absent"): "no such file",
	} {
		if _, err := Binary(t.Context(), path, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
}

// A script is a plugin like any other, and its end is reported in full.
func TestScriptThatIsNoPlugin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script")
	testos.WriteFile(t, path, "#!/bin/sh\necho not today >&2\nexit 4\n", 0o700)
	r, err := Binary(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := judge(&r, "exit status 4); the end of its log:\nnot today", "start"); err != nil {
		t.Error(err)
	}
	if r.Plugin != nil || r.OK() {
		t.Errorf("report %+v", r)
	}
}

// What was not reached in time is not passed over.
func TestTimeoutOfTheRunFailsTheRest(t *testing.T) {
	r, err := Value(t.Context(), newSound().plugin(), Options{Timeout: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if r.OK() || !strings.Contains(r.Checks[0].Seen, "over") {
		t.Errorf("%d of %d failed, first %s", r.Count(Failed), len(r.Checks), &r.Checks[0])
	}
}

func TestOptionSkips(t *testing.T) {
	r, err := Value(t.Context(), newSound().plugin(), Options{Skip: []string{"rank-500"}, Only: []string{"rank"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Count(Failed); n != 0 {
		t.Errorf("failed: %q", failures(&r))
	}
	groups := map[string]int{}
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.Name == "rank-500" && c.Result != Skipped {
			t.Errorf("rank-500 is %s", c.Result)
		}
		groups[groupOf(c.Name)]++
	}
	if groups["describe"] == 0 || groups["rank"] == 0 || groups["observe"]+groups["steady"]+groups["machine"] > 0 {
		t.Errorf("checks of each group: %v, want those of describe and rank only", groups)
	}
}
