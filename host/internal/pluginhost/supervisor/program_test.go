package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/testos"
)

func pinOf(t *testing.T, file string) string {
	t.Helper()
	content := testos.ReadFile(t, file)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func pins(name, pin string) func(*Options) {
	return func(o *Options) {
		o.Settings = map[string]Settings{name: {SHA256: pin}}
	}
}

func TestPinnedPlugin(t *testing.T) {
	t.Parallel()
	right, wrong := pinOf(t, faultyProgram), strings.Repeat("0f", 32)
	h := startHost(t, install(t, "good"), pins("good", wrong))
	s := h.plugin("good")
	if s.State != Refused || s.Restarts != 0 {
		t.Errorf("good is %s, want it refused", s.State)
	}
	want(t, s.Reason, "has sha256 "+right+", want "+wrong)
	settings := map[string]Settings{"good": {SHA256: strings.ToUpper(right)}}
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, settings); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs with the right pin", func() bool { return h.plugin("good").State == Running })
}

// New terms need a new process; the former one serves until that is there, and
// goes on if it cannot be.
func TestChangedConfinementNeedsANewProcess(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good"))
	before := h.plugin("good")
	reconfigure := func(pin string) {
		t.Helper()
		settings := map[string]Settings{"good": {SHA256: pin}}
		if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, settings); err != nil {
			t.Fatal(err)
		}
	}
	reconfigure(pinOf(t, faultyProgram))
	eventually(t, "another process runs", func() bool { s := h.plugin("good"); return s.State == Running && s.PID != before.PID })
	if c := h.plugin("good").Confinement; c == nil || !c.Pinned {
		t.Errorf("confinement %+v, want it pinned", c)
	}
	pinned := h.plugin("good")
	reconfigure(strings.Repeat("0f", 32))
	eventually(t, "the replacement is refused", func() bool {
		r := h.plugin("good").Replacement
		return r != nil && r.State == Refused && strings.Contains(r.Reason, "has sha256")
	})
	if s := h.plugin("good"); s.State != Running || s.PID != pinned.PID {
		t.Errorf("good is %s with pid %d, want the former process to go on", s.State, s.PID)
	}
}

func TestPinsMayBeRequired(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good", "other", "memory"), func(o *Options) {
		o.Settings = map[string]Settings{
			"": {RequirePin: true}, "good": {RequirePin: true, SHA256: pinOf(t, faultyProgram)}, "memory": {RequirePin: true},
		}
	})
	if s := h.plugin("other"); s.State != Refused {
		t.Errorf("other is %s, want it refused", s.State)
	}
	want(t, h.plugin("other").Reason, "it has no pin", "requirePins is on")
	for _, name := range []string{"good", "memory"} {
		if s := h.plugin(name); s.State != Running {
			t.Errorf("%s is %s (%s), want it to run", name, s.State, s.Reason)
		}
	}
	want(t, h.log.String(), `"msg":"plugin started","plugin":"memory"`)
	if strings.Contains(h.log.String(), "settings for a plugin that is not there") {
		t.Error("warned of settings for everybody")
	}
}

// One that runs without a pin must not go on when pins come to be required, and is
// back, with no old error, when they are not any more.
func TestPinsMayComeToBeRequired(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good", "memory"))
	require := map[string]Settings{"": {RequirePin: true}}
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, require); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin without a pin has ended", func() bool { return h.plugin("good").State == Refused })
	if s := h.plugin("memory"); s.State != Running || s.Restarts+s.Swaps > 0 {
		t.Errorf("memory is %s with %d restarts, want it to go on", s.State, s.Restarts)
	}
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs again", func() bool { return h.plugin("good").State == Running })
	if s := h.plugin("good"); s.LastError != "" {
		t.Errorf("last error %q, want none", s.LastError)
	}
}

// The name stays the plugin's, whatever is executed.
func TestPluginSeesItsOwnName(t *testing.T) {
	t.Parallel()
	dir := installedScript(t, "wrapped", "#!/bin/sh\n[ \"${0##*/}\" = wrapped ] && exec "+install(t, "good")+"/good\n")
	for name, pin := range map[string]string{"by descriptor": "", "by copy": pinOf(t, dir+"/wrapped")} {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, dir, pins("wrapped", pin))
			if s := h.plugin("wrapped"); s.State != Running {
				t.Errorf("the script is %s: %s", s.State, s.Reason)
			}
		})
	}
	h := startHost(t, install(t, "good"))
	pid := h.plugin("good").PID
	cmdline, _ := os.ReadFile(procFile(pid, "cmdline"))
	exe, _ := os.Readlink(procFile(pid, "exe"))
	if comm, _ := os.ReadFile(procFile(pid, "comm")); string(comm) != "good\n" {
		t.Errorf("its process is %q, want good", comm)
	}
	if got := strings.Trim(string(cmdline), "\x00"); got != h.dir+"/good" || exe != faultyProgram {
		t.Errorf("it is called %s and is %s, want %s and %s", got, exe, h.dir+"/good", faultyProgram)
	}
}

// The interpreter opens the script as the plugin's user, which may not reach where it
// is.
func TestScriptWithAUser(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	dir := installedScript(t, "script", "#!/bin/sh\necho \"I am $(/usr/bin/id -u)\" >&2\n")
	testos.Chmod(t, dir+"/script", 0o755)
	for name, pin := range map[string]string{"by descriptor": "", "by copy": pinOf(t, dir+"/script")} {
		t.Run(name, func(t *testing.T) {
			h := startHost(t, dir, func(o *Options) {
				through(t, o.SocketRoot)
				o.Settings = map[string]Settings{"script": {SHA256: pin, Confine: as(sandbox.Policy{User: "nobody"})}}
			})
			eventually(t, "it says who it is", func() bool { return slices.Contains(h.plugin("script").Log, "I am 65534") })
		})
	}
}

func installedScript(t *testing.T, name, text string) string {
	t.Helper()
	dir := privateDir(t)
	testos.WriteFile(t, filepath.Join(dir, name), text, 0o700)
	return dir
}
