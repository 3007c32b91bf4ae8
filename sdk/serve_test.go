package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/internal/stdout"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// These tests start this test binary again as a plugin: which one says this
// variable.
const role = "SDK_TEST_PLUGIN"

// An init that prints must not break the handshake.
func init() { chatter("at init") }

func TestMain(m *testing.M) {
	if p, ok := plugins()[os.Getenv(role)]; ok {
		chatter("before Serve")
		sdk.Serve(p)
		return
	}
	os.Exit(m.Run())
}

// chatter prints to standard output in every way, in a chatty plugin.
func chatter(when string) {
	if os.Getenv(role) == "chatty" {
		fmt.Println("fmt", when)
		_, _ = os.Stdout.WriteString("os.Stdout " + when + "\n")
		_, _ = syscall.Write(1, []byte("descriptor 1 "+when+"\n"))
		child := exec.Command("/bin/echo", "child process", when)
		child.Stdout = os.Stdout
		_ = child.Run()
	}
}

func plugins() map[string]sdk.Plugin {
	memory, watched := sdk.Signals(eviction.MemoryAvailable), make(watcher)
	type config struct {
		Factor int `json:"factor"`
	}
	return map[string]sdk.Plugin{
		"plain":   {Name: "plain", Version: "1.2.3", Signals: memory, Ranker: sdk.RankBy()},
		"chatty":  {Name: "chatty", Signals: memory, Observer: observer(chat)},
		"slow":    {Name: "slow", Signals: memory, Observer: observer(watched.outlast), Watcher: watched},
		"invalid": {Name: "invalid", Ranker: sdk.RankBy()},
		"picky": {
			Name: "picky", Signals: memory, Ranker: sdk.RankBy(),
			CheckHost: func(h eviction.Host) error { return fmt.Errorf("host %s has no crystal-ball", h.Version) },
		},
		"configured": {
			Name: "configured", Signals: memory, Ranker: sdk.RankBy(),
			Configurer: sdk.Configure(func(context.Context, eviction.NodeFacts, config) error { return nil }),
		},
	}
}

type observer func(context.Context) error

func (o observer) Observe(ctx context.Context, _ eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return eviction.ObserveReply{}, o(ctx)
}

func chat(context.Context) error {
	chatter("in a call")
	println("println in a call")
	log.Print("log in a call")
	slog.Warn("slog in a call", "answer", 42)
	sdk.Logger().Info("Logger in a call")
	return nil
}

// A watcher is closed when its watch has ended.
type watcher chan struct{}

func (w watcher) Watch(ctx context.Context, _ eviction.WatchRequest, wake func(eviction.Wake)) error {
	defer close(w)
	wake(eviction.Wake{})
	<-ctx.Done()
	return ctx.Err()
}

// outlast is a call that lasts until the watch has ended.
func (w watcher) outlast(context.Context) error {
	println("call under way")
	<-w
	return nil
}

// A process is a plugin process and the host's connection to it.
type process struct {
	cmd    *exec.Cmd
	client *plugin.Client
	pipe   *os.File // the host's end of the pipe that tells of its life
	log    *syncBuffer
}

// start runs the plugin kind as the host would.
func start(t *testing.T, kind string, autoMTLS bool) *process {
	t.Helper()
	dir, err := os.MkdirTemp("", "sdk") // t.TempDir may exceed the 107 bytes of a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), pipe: write, log: new(syncBuffer)}
	p.cmd.Env = []string{role + "=" + kind, "PLUGIN_UNIX_SOCKET_DIR=" + dir, "EVICTD_PARENT_FD=3", "GORACE=atexit_sleep_ms=0"}
	p.cmd.ExtraFiles = []*os.File{read}
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: wire.ServerPlugins(eviction.Plugin{}),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Cmd:              p.cmd,
		AutoMTLS:         autoMTLS,
		SkipHostEnv:      true,
		Stderr:           p.log,
		Logger:           hclog.NewNullLogger(),
		StartTimeout:     20 * time.Second,
	})
	t.Cleanup(func() {
		p.client.Kill()
		_ = write.Close()
		if t.Failed() {
			t.Logf("log of the plugin:\n%s", p.log)
		}
	})
	_, err = p.client.Start()
	_ = read.Close()
	if err != nil {
		t.Fatalf("start: %v\n%s", err, p.log)
	}
	return p
}

// describe returns the plugin's description, or why there is none.
func (p *process) describe(ctx context.Context) (eviction.Plugin, error) {
	protocol, err := p.client.Client()
	if err != nil {
		return eviction.Plugin{}, err
	}
	client, err := protocol.Dispense(wire.PluginName)
	if err != nil {
		return eviction.Plugin{}, err
	}
	return client.(*wire.Client).Describe(ctx, eviction.Host{Version: "9.9"})
}

// within returns a context with a deadline far beyond what is expected.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// exit waits for the end of the process and returns how long that took.
func (p *process) exit(t *testing.T) time.Duration {
	t.Helper()
	begin := time.Now()
	await(t, "the plugin does not end", p.client.Exited)
	return time.Since(begin)
}

func await(t *testing.T, complaint string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); !is(); <-tick.C {
		if time.Since(begin) > 10*time.Second {
			t.Fatal(complaint)
		}
	}
}

// syncBuffer collects a log that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// waitFor waits until the log has all of the texts.
func (s *syncBuffer) waitFor(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		await(t, fmt.Sprintf("the log lacks %q", text), func() bool { return strings.Contains(s.String(), text) })
	}
}

func TestPluginServesWithAndWithoutTLS(t *testing.T) {
	for name, autoMTLS := range map[string]bool{"TLS": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			p, err := start(t, "plain", autoMTLS).describe(within(t, 10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if p.Name != "plain" || p.Version != "1.2.3" || p.Ranker == nil || p.Observer != nil {
				t.Errorf("description %+v", p)
			}
			ranking, err := p.Ranker.Rank(within(t, 10*time.Second), eviction.RankRequest{Candidates: []eviction.Candidate{
				{Pod: eviction.Pod{UID: "1"}}, {Pod: eviction.Pod{UID: "2"}},
			}})
			if err != nil || len(ranking) != 2 || ranking[0].UID != "1" || ranking[1].UID != "2" {
				t.Errorf("ranking %+v, error %v", ranking, err)
			}
		})
	}
}

func TestPrintsGoToTheLogAndNotIntoTheHandshake(t *testing.T) {
	child := start(t, "chatty", true)
	p, err := child.describe(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Observer.Observe(within(t, 10*time.Second), eviction.ObserveRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"at init", "before Serve", "in a call"} {
		child.log.waitFor(t, "fmt "+when, "os.Stdout "+when, "descriptor 1 "+when, "child process "+when)
	}
	child.log.waitFor(t, "println in a call",
		`"@level":"info","@message":"log in a call"`,
		`"@level":"warn","@message":"slog in a call","answer":42`,
		`"@level":"info","@message":"Logger in a call"`)
}

func TestSIGTERMLetsCallsFinishAndTheDeathOfTheHostDoesNot(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*process) error
		call error
	}{
		"SIGTERM":          {func(p *process) error { return p.cmd.Process.Signal(syscall.SIGTERM) }, nil},
		"the host is dead": {func(p *process) error { return p.pipe.Close() }, eviction.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			child := start(t, "slow", false)
			p, err := child.describe(within(t, 10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			observed, watched, watching := make(chan error, 1), make(chan error, 1), make(chan struct{})
			ctx := within(t, 10*time.Second)
			go func() {
				watched <- p.Watcher.Watch(ctx, eviction.WatchRequest{}, func(eviction.Wake) { close(watching) })
			}()
			<-watching
			go func() {
				_, err := p.Observer.Observe(ctx, eviction.ObserveRequest{})
				observed <- err
			}()
			child.log.waitFor(t, "call under way")
			if err := c.end(child); err != nil {
				t.Fatal(err)
			}
			if err := <-observed; !errors.Is(err, c.call) {
				t.Errorf("the call in flight ended with %v, want %v", err, c.call)
			}
			if err := <-watched; !errors.Is(err, eviction.ErrUnavailable) {
				t.Errorf("the watch ended with %v, want %v", err, eviction.ErrUnavailable)
			}
			if took := child.exit(t); took > 700*time.Millisecond {
				t.Errorf("ended %s after its last answer, which is not in order but the timeout", took)
			}
			if code := child.cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
		})
	}
}

func TestSIGINTIsTheHostsBusiness(t *testing.T) {
	child := start(t, "plain", false)
	for range 3 {
		if err := child.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := child.describe(within(t, 10*time.Second)); err != nil {
		t.Errorf("after SIGINT: %v", err)
	}
}

func TestUnknownConfigField(t *testing.T) {
	p, err := start(t, "configured", false).describe(within(t, 10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 10*time.Second)
	if err := p.Configurer.Configure(ctx, eviction.ConfigureRequest{Config: []byte(`{"factor":1}`)}); err != nil {
		t.Errorf("good config: %v", err)
	}
	err = p.Configurer.Configure(ctx, eviction.ConfigureRequest{Config: []byte(`{"factr":1}`)})
	if !errors.Is(err, eviction.ErrRefused) || !strings.Contains(err.Error(), `unknown field "factr"`) {
		t.Errorf("got %v, want a refusal that names the field", err)
	}
}

func TestRefusedHost(t *testing.T) {
	_, err := start(t, "picky", false).describe(within(t, 10*time.Second))
	if !errors.Is(err, eviction.ErrRefused) || !strings.Contains(err.Error(), "host 9.9 has no crystal-ball") {
		t.Errorf("got %v, want the plugin's refusal", err)
	}
}

func TestStartsThatCannotWork(t *testing.T) {
	cookie := wire.Handshake.MagicCookieKey + "=" + wire.Handshake.MagicCookieValue
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"by hand":            {[]string{role + "=plain"}, "is a plugin that evictd starts: put it into evictd's plugin directory"},
		"not valid":          {[]string{role + "=invalid", cookie}, "signals is empty, want at least one"},
		"no such descriptor": {[]string{role + "=plain", cookie, "EVICTD_PARENT_FD=1048576"}, `EVICTD_PARENT_FD is \"1048576\"`},
		"no descriptor":      {[]string{role + "=plain", cookie, "EVICTD_PARENT_FD=pipe"}, `EVICTD_PARENT_FD is \"pipe\"`},
		"no socket directory": {
			[]string{role + "=plain", cookie, "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR=/nonexistent"},
			"go-plugin did not start",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(within(t, 20*time.Second), os.Args[0])
			cmd.Env = c.env
			var out, log bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &log
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != 1 {
				t.Errorf("%v, want exit status 1", err)
			}
			if !strings.Contains(log.String(), c.want) {
				t.Errorf("stderr is %q, want %q in it", &log, c.want)
			}
			if out.Len() > 0 {
				t.Errorf("stdout is %q, want nothing", &out)
			}
		})
	}
}

func TestCookieIsTheProtocols(t *testing.T) {
	if stdout.Cookie != wire.Handshake.MagicCookieKey {
		t.Errorf("package stdout looks for %s, the protocol has %s", stdout.Cookie, wire.Handshake.MagicCookieKey)
	}
}
