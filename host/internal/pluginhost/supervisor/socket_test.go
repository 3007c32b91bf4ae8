package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/shared/wire"
	"github.com/evictd/evictd/test/harness/child"
	"github.com/evictd/evictd/test/harness/daemon"
)

// An outsider is a plugin in this process, on a socket.
type outsider struct {
	server *grpc.Server
	// configured counts its configurations.
	configured atomic.Int32
}

func (o *outsider) Observe(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return eviction.ObserveReply{Observations: []eviction.Observation{{Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: 1, Capacity: 2}}}, nil
}

func (o *outsider) Configure(context.Context, eviction.ConfigureRequest) error {
	o.configured.Add(1)
	return nil
}

// outside serves a plugin of that version on a socket in dir, in place of what is there.
func outside(t *testing.T, dir, name, version string) *outsider {
	t.Helper()
	o := &outsider{server: wire.NewGRPCServer(nil)}
	wire.Register(o.server, eviction.Plugin{
		Name: name, Version: version, Observer: o, Configurer: o, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}},
	})
	l := listenAt(t, filepath.Join(dir, name+".sock"))
	go func() { _ = o.server.Serve(l) }()
	t.Cleanup(o.server.Stop)
	return o
}

// listenAt listens on a socket that replaces what is at path, and that stays there.
func listenAt(t *testing.T, path string) *net.UnixListener {
	t.Helper()
	aside := filepath.Join(privateDir(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: aside, Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false)
		err = os.Chmod(aside, 0o600)
	}
	if err == nil {
		err = os.Rename(aside, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (h *testHost) awaitState(name string, state State) {
	h.t.Helper()
	eventually(h.t, name+" is "+string(state), func() bool { return h.plugin(name).State == state })
}

func TestASocketEnablesAPluginAndDisablesItWhenItGoes(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	h := startHost(t, dir)
	outside(t, dir, "10-acme", "1")
	h.awaitState("10-acme", Running)
	s := h.plugin("10-acme")
	if s.Path != filepath.Join(dir, "10-acme.sock") || s.PID != os.Getpid() || s.Confinement == nil || !s.Confinement.Outside || s.Confinement.User != fmt.Sprint(os.Geteuid()) {
		t.Errorf("%+v %+v, want the socket, this process and its user", s, s.Confinement)
	}
	if o := h.observed("10-acme"); o.Available != 1 {
		t.Errorf("%+v", o)
	}
	testos.Remove(t, s.Path)
	eventually(t, "it is gone", func() bool { return h.plugin("10-acme").State == "" })
	want(t, h.log.String(), "its signals are not observed")
}

func TestAnEndedConnectionIsACrashAndANewSocketIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	h := startHost(t, dir)
	for n := range 7 { // more than a quarantine takes
		o := outside(t, dir, "acme", fmt.Sprint(n))
		eventually(t, "it serves", func() bool { s := h.plugin("acme"); return s.State == Running && s.Version == fmt.Sprint(n) })
		o.server.Stop()
		eventually(t, "it does not serve", func() bool { s := h.plugin("acme").State; return s != Running })
	}
	want(t, h.log.String(), "exited by itself (its connection ended)")
	eventually(t, "a socket without a process is reported", func() bool { return strings.Contains(h.plugin("acme").Reason, "no process listens on it") })
}

func TestAQuarantinedSocketIsLeftAloneUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	quick := defaultRestartPolicy()
	quick.first, quick.longest = time.Millisecond, time.Millisecond
	h := startWithPolicy(t, quick, dir)
	if err := listenAt(t, filepath.Join(dir, "acme.sock")).Close(); err != nil {
		t.Fatal(err)
	}
	h.awaitState("acme", Quarantined)
	outside(t, dir, "acme", "2")
	h.awaitState("acme", Running)
}

func TestANewSocketTakesOverAtAPassBoundary(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	h := startHost(t, dir)
	outside(t, dir, "acme", "1")
	h.awaitState("acme", Running)
	pass, old := h.pinned("acme")
	outside(t, dir, "acme", "2")
	eventually(t, "the new one serves", func() bool { return h.plugin("acme").Version == "2" })
	if s := h.plugin("acme"); s.Swaps != 1 || s.Restarts != 0 {
		t.Errorf("%+v, want a swap", s)
	}
	if _, err := observe(t.Context(), old); err != nil {
		t.Errorf("the former one is pinned and fails: %v", err)
	}
	pass.Release()
}

func TestABrokenNewSocketLeavesTheFormerPluginRunning(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	h := startHost(t, dir)
	outside(t, dir, "acme", "1")
	h.awaitState("acme", Running)
	if err := listenAt(t, filepath.Join(dir, "acme.sock")).Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replacement has failed", func() bool { r := h.plugin("acme").Replacement; return r != nil && r.State == Refused })
	if o := h.observed("acme"); o.Available != 1 {
		t.Errorf("%+v, want the former one's figure", o)
	}
}

func TestAnExecutableCountsBeforeASocketOfItsName(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good")
	outside(t, dir, "good", "socket")
	h := startHost(t, dir)
	if s := h.plugin("good"); s.State != Running || s.Version == "socket" {
		t.Errorf("%+v, want the executable", s)
	}
	testos.Remove(t, filepath.Join(dir, "good"))
	eventually(t, "the socket's plugin serves", func() bool { return h.plugin("good").Version == "socket" })
}

// What must not be called is refused by name, and is not connected to.
func TestSocketsThatAreRefused(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const other = 54321
	link := func(dir, path string) error {
		outside(t, dir, ".acme", "1")
		return os.Symlink(filepath.Join(dir, "..acme.sock"), path)
	}
	socket := func(change func(path string) error) func(dir, path string) error {
		return func(dir, path string) error {
			outside(t, dir, "acme", "1")
			return change(path)
		}
	}
	none := socket(func(string) error { return nil })
	chown := socket(func(path string) error { return os.Chown(path, other, 0) })
	for what, c := range map[string]struct {
		make     func(dir, path string) error
		settings Settings
		want     string
	}{
		"link":           {link, Settings{}, "is a symbolic link, want a socket"},
		"pipe":           {func(_, path string) error { return syscall.Mkfifo(path, 0o600) }, Settings{}, "is a pipe, want a socket"},
		"file":           {func(_, path string) error { return os.WriteFile(path, nil, 0o700) }, Settings{}, "is a regular file, want a socket"},
		"directory":      {func(_, path string) error { return os.Mkdir(path, 0o700) }, Settings{}, "is a directory, want a socket"},
		"other user":     {chown, Settings{}, "owned by uid 54321, want one of [0]"},
		"user of others": {chown, Settings{Confine: func(p *sandbox.Policy) { p.User = "54322" }}, "owned by uid 54321, want one of [0 54322]"},
		"mode":           {socket(func(path string) error { return os.Chmod(path, 0o666) }), Settings{}, "mode 0666 lets others than its owner call the plugin, want at most 0644"},
		"pin":            {none, Settings{SHA256: strings.Repeat("0", 64)}, "plugins.acme.sha256: the program behind a socket has no hash"},
		"pins required":  {none, Settings{RequirePin: true}, "requirePins is on"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := privateDir(t)
			path := filepath.Join(dir, "acme.sock")
			if err := c.make(dir, path); err != nil {
				t.Fatal(err)
			}
			set := func(o *Options) { o.Settings = map[string]Settings{"acme": c.settings} }
			h := startHost(t, dir, set)
			if s := h.plugin("acme"); s.State != Refused || !strings.Contains(s.Reason, c.want) {
				t.Errorf("%s: %s, want refused: %s", s.State, s.Reason, c.want)
			}
			o := Options{Dir: dir}
			set(&o)
			if errs, _ := Check(o); len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) {
				t.Errorf("check: %v, want %s", errs, c.want)
			}
		})
	}
}

// The socket's owner may be root while the process behind it is another user's, as in a user namespace.
func TestTheProcessBehindASocketIsIdentified(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const other = 54321
	theirs, dir := privateDir(t), privateDir(t)
	if err := os.Chown(theirs, other, other); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(theirs, "oldest")
	daemon.Install(t, daemon.Build(t, "oldest"), program)
	cmd := exec.Command(program)
	cmd.Env = []string{"EVICTD_PLUGIN_SOCKET=" + filepath.Join(theirs, "acme.sock")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	path := filepath.Join(dir, "acme.sock")
	eventually(t, "it listens", func() bool { return os.Rename(filepath.Join(theirs, "acme.sock"), path) == nil })
	if err := os.Chown(path, 0, 0); err != nil {
		t.Fatal(err)
	}
	h := startHost(t, dir)
	h.awaitState("acme", Refused)
	want(t, h.plugin("acme").Reason, "its process has uid 54321, want one of [0]")
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"acme": {Confine: func(p *sandbox.Policy) { p.User = "54321" }}}); err != nil {
		t.Fatal(err)
	}
	h.awaitState("acme", Running)
}

func TestASocketThatConnectsAndIsSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	l := listenAt(t, filepath.Join(dir, "acme.sock"))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }() // the collector would close it sooner
		}
	}()
	h := startHost(t, dir, func(o *Options) { o.Timeouts.Handshake = 100 * time.Millisecond })
	h.awaitState("acme", Backoff) // the next attempt may have begun
	want(t, h.plugin("acme").LastError, "not ready within 100ms")
}

// ping is a frame without content, for which HTTP/2 wants an answer.
var ping = "\x00\x00\x08\x06\x00\x00\x00\x00\x00" + "flooding"

func TestASocketThatFloodsIsHungUpOn(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	l := listenAt(t, filepath.Join(dir, "acme.sock"))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			// It reads the answers: else they fill the socket, and on a busy machine the flood ends before it is one.
			go func() { _, _ = io.Copy(io.Discard, c) }()
			_, err = c.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00")) // empty settings
			for err == nil {
				_, err = c.Write([]byte(strings.Repeat(ping, 1000)))
			}
		}
	}()
	h := startHost(t, dir)
	eventually(t, "it is hung up on", func() bool {
		return strings.Contains(h.plugin("acme").Reason, "more than 5000 control frames of HTTP/2 within a second")
	})
}

// A check of the configuration must not change that of a plugin which serves a daemon.
func TestATrialLeavesThePluginOnASocketItsConfiguration(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	o := outside(t, dir, "acme", "1")
	observed := false
	errs := Try(t.Context(), Options{Dir: dir, Settings: configs("acme", `{"n":1}`), Log: slog.New(slog.DiscardHandler), Timeouts: patientCalls}, func(s *Supervisor) {
		pin := s.Pin()
		defer pin.Release()
		for _, i := range pin.Instances() {
			_, err := observe(t.Context(), i)
			observed = err == nil
		}
	})
	if errors.Join(errs...) != nil || !observed || o.configured.Load() != 0 {
		t.Errorf("errors %v, observed %v, configured %d times, want none, true and 0", errs, observed, o.configured.Load())
	}
}

func TestSettingsWithoutEffectOnASocketAreNamed(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	outside(t, dir, "acme", "1")
	for what, settings := range map[string]Settings{
		"limit": {Confine: func(p *sandbox.Policy) { p.MemoryBytes = 1 << 30 }}, "autoMTLS": {AutoMTLS: new(bool)}, "paths": {WritablePaths: []string{dir}},
	} {
		if _, warnings := Check(Options{Dir: dir, Settings: map[string]Settings{"acme": settings}}); len(warnings) != 1 || !strings.Contains(warnings[0], "have no effect") {
			t.Errorf("%s: %q", what, warnings)
		}
	}
	if errs, warnings := Check(Options{Dir: dir, Settings: configs("acme", `{}`)}); len(errs)+len(warnings) > 0 {
		t.Errorf("%v %v", errs, warnings)
	}
}

func TestAPluginThatCannotWriteWhereItHasToIsRefused(t *testing.T) {
	t.Parallel()
	dir, place := installed(t, "good"), privateDir(t)
	missing := filepath.Join(place, "missing")
	set := func(o *Options) { o.Settings = map[string]Settings{"good": {WritablePaths: []string{place, missing}}} }
	h := startHost(t, dir, set)
	h.awaitState("good", Refused)
	want(t, h.plugin("good").Reason, fmt.Sprintf("plugins.good.writablePaths: %q: no such file or directory", missing))
	o := Options{Dir: dir}
	set(&o)
	if errs, _ := Check(o); len(errs) != 1 {
		t.Errorf("check: %v", errs)
	}
	testos.Mkdir(t, missing, 0o700)
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, o.Settings); err != nil {
		t.Fatal(err)
	}
	h.awaitState("good", Running)
}

// A plugin that is listed and runs in a container, or is copied by one, is there a moment after evictd has started, and
// a pass without it would evict other pods.
func TestTheStartWaitsForAPluginThatIsExpected(t *testing.T) {
	t.Parallel()
	dir, stage := installed(t, "good"), privateDir(t)
	testos.Symlink(t, filepath.Join(stage, "copied"), filepath.Join(dir, "copied"))
	expected := map[string]Settings{"acme": {Expected: true}, "copied": {Expected: true}, "off": {Expected: true, Disabled: true}}
	s, err := New(Options{Dir: dir, SocketRoot: privateDir(t), Settings: expected, Timeouts: patientCalls, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	eventually(t, "the other one serves", func() bool {
		all := s.Status()
		return len(all) == 2 && all[0].State == Waiting && all[0].LastError == "" && all[1].State == Running
	})
	notStarted := func(without string) {
		t.Helper()
		select {
		case <-s.Started():
			t.Error("started without", without)
		default:
		}
	}
	notStarted("both")
	outside(t, dir, "acme", "1")
	eventually(t, "acme serves", func() bool { return len(s.Status()) == 3 && s.Status()[0].State == Running })
	notStarted("the copied one")
	testos.Rename(t, filepath.Join(installed(t, "good"), "good"), filepath.Join(stage, "copied"))
	<-s.Started()
	for _, p := range s.Status() {
		if p.State != Running {
			t.Errorf("%s is %s", p.Name, p.State)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTheStartDoesNotWaitForLongForAPluginThatIsExpected(t *testing.T) {
	t.Parallel()
	h := startHost(t, installed(t, "good"), func(o *Options) {
		o.Settings, o.Timeouts.Start = map[string]Settings{"acme": {Expected: true}}, 10*time.Millisecond
	})
	want(t, h.log.String(), `"msg":"plugin start timed out","plugins":["acme"`)
}

func TestTheStartDoesNotWaitForLongForACopy(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good")
	testos.Symlink(t, "/nowhere/acme", filepath.Join(dir, "acme"))
	h := startHost(t, dir, func(o *Options) {
		o.Settings, o.Timeouts.Start = map[string]Settings{"acme": {Expected: true}}, 10*time.Millisecond
	})
	h.awaitState("acme", Refused)
	want(t, h.plugin("acme").Reason, "/nowhere: no such file or directory")
}

// Settings for a socket that is not there yet refused a reload as a whole, since a user without a group cannot start
// a process; and requirePins did not come into force beside a socket.
func TestSettingsOfASocketDoNotRefuseAReload(t *testing.T) {
	t.Parallel()
	dir := privateDir(t)
	outside(t, dir, "acme", "1")
	h := startHost(t, dir)
	user := func(name string) Settings { return Settings{Confine: func(p *sandbox.Policy) { p.User = name }} }
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"acme": user("54321"), "later": user("54321")}); err != nil {
		t.Error(err)
	}
	err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"acme": user("nobody-here"), "later": user("nobody-there")})
	if err == nil || strings.Count(err.Error(), "unknown user") != 2 {
		t.Errorf("%v, want an error about both", err)
	}
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"": {RequirePin: true}, "acme": {RequirePin: true}}); err != nil {
		t.Error(err)
	}
	h.awaitState("acme", Refused)
	want(t, h.plugin("acme").Reason, "requirePins is on")
}
