package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/ground/httpserver"
	"github.com/evictd/evictd/host/internal/node/rundir"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

// result of a call of evictctl.
type result struct {
	Code        int
	Out, Errors string
}

func evictctl(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs strings.Builder
	code := execute(t.Context(), args, &out, &errs)
	return result{code, out.String(), errs.String()}
}

// node is a directory with what check looks for.
type node struct {
	dir, plugins, manifests, socket string

	runtime *fakecri.Server
	// config has everything of evictd below the node's directory.
	config map[string]any
}

func newNode(t *testing.T) node {
	t.Helper()
	// Not t.TempDir, which a umask may let others write to.
	dir, err := os.MkdirTemp("", "evictd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := node{dir, filepath.Join(dir, "plugins"), filepath.Join(dir, "manifests"), filepath.Join(dir, "cri.sock"), fakecri.New(), nil}
	n.config = map[string]any{
		"pluginDir": n.plugins, "podManifestDir": n.manifests, "kubeletRootDir": dir, "runtimeEndpoint": "unix://" + n.socket,
		"runDir": filepath.Join(dir, "run"), "stateDir": filepath.Join(dir, "state"),
	}
	for _, d := range []string{n.plugins, n.manifests} {
		testos.Mkdir(t, d, 0o755)
	}
	testos.WriteFile(t, filepath.Join(n.plugins, "memory"), "", 0o755)
	if err := n.runtime.Listen(n.socket); err != nil {
		t.Fatal(err)
	}
	n.runtime.SetImageDir(dir)
	t.Cleanup(n.runtime.Die)
	return n
}

// with returns the node with another value in its configuration.
func (n node) with(key string, value any) node {
	n.config = maps.Clone(n.config)
	n.config[key] = value
	return n
}

// flags returns --config with the node's configuration, and more. The file of a --config in more
// gets it, too.
func (n node) flags(t *testing.T, more ...string) []string {
	t.Helper()
	file, all := filepath.Join(n.dir, "evictd.yaml"), map[string]any{}
	if i := slices.Index(more, "--config"); i >= 0 {
		file = more[i+1]
		if err := yaml.Unmarshal(testos.ReadFile(t, file), &all); err != nil {
			t.Fatal(err)
		}
		more = slices.Delete(slices.Clone(more), i, i+2)
	}
	maps.Copy(all, n.config)
	text, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	testos.WriteFile(t, file, string(text), 0o600)
	return append([]string{"--config", file}, more...)
}

// check starts no plugins: those of the node are empty files.
func (n node) check(t *testing.T, more ...string) result {
	t.Helper()
	got := evictctl(t, append([]string{"check", "--start-plugins=false"}, n.flags(t, more...)...)...)
	got.Out, _, _ = strings.Cut(got.Out, "\nADVICE\n") // for the machine that runs the tests
	return got
}

func TestCheckPrintsWhatIsInForce(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "evictd.yaml")
	testos.WriteFile(t, file, "evictionHard: {memory.available: 1Gi, nodefs.available: 10%}\nevictionMinimumReclaim: {nodefs.available: 500Mi}\nevictionMaxPodGracePeriod: 30\n", 0o600)
	got := n.check(t, "--config", file, "--eviction-soft", "memory.available<1.5Gi", "--eviction-soft-grace-period", "memory.available=1m30s")
	want := result{Out: `SIGNAL                       THRESHOLD  KIND  GRACE PERIOD  MINIMUM RECLAIM
memory.available             1Gi        hard  -             -
nodefs.available             10%        hard  -             500Mi
memory.available             1536Mi     soft  1m30s         -
allocatableMemory.available  1Gi        hard  -             -

DERIVED                THRESHOLD  KIND  GRACE PERIOD  MINIMUM RECLAIM  LAYOUT OF THE NODE
containerfs.available  10%        hard  -             500Mi            shared, containerfs
`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("check (-want +got):\n%s", diff)
	}
}

func TestCheckOfOwnSignals(t *testing.T) {
	n := newNode(t)
	got := n.with("requiredSignals", []string{"acme.example/nvme.spare"}).check(t, "--eviction-hard", "memory.available<1Gi,acme.example/nvme.spare<10%", "--enforce-node-allocatable=",
		"--eviction-minimum-reclaim", "acme.example/nvme.spare=2k")
	want := result{Out: `SIGNAL                   THRESHOLD  KIND  GRACE PERIOD  MINIMUM RECLAIM
acme.example/nvme.spare  10%        hard  -             2k
memory.available         1Gi        hard  -             -

CUSTOM SIGNAL            UNIT, RESOURCE AND CONDITION
acme.example/nvme.spare  from the plugin that brings it; without one its thresholds have no effect
`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("check (-want +got):\n%s", diff)
	}
}

func TestCheckOfTheKubeletsFileForASummary(t *testing.T) {
	n := newNode(t)
	kubelet := filepath.Join(n.dir, "kubelet.yaml")
	own, summary := filepath.Join(n.dir, "evictd.yaml"), filepath.Join(n.dir, "summary.json")
	kubeconfig := daemon.Summary(t, "file://"+summary)["kubeconfig"]
	for file, content := range map[string]string{
		kubelet: "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nstaticPodPath: /etc/kubernetes/manifests\n" +
			"evictionHard: {imagefs.available: 15%, containerfs.available: 5%}\n",
		summary: "{}",
		own:     "source: summary\nsummary: {kubeconfig: " + kubeconfig + "}\n",
	} {
		testos.WriteFile(t, file, content, 0o600)
	}
	got := n.check(t, "--config", own, "--kubelet-config", kubelet)
	want := result{Code: command.ExitUsage, Errors: "evictctl: " + own + `: summary.layout: not given, want "shared", "imagefs" or "containerfs", as there is a threshold of containerfs.available and a summary does not tell` + "\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("check without a layout (-want +got):\n%s", diff)
	}

	testos.WriteFile(t, own, "source: summary\nsummary: {kubeconfig: "+kubeconfig+", layout: imagefs}\nstaticPodPath: \"\"\n", 0o600)
	got = n.check(t, "--config", own, "--kubelet-config", kubelet)
	want = result{
		Out: `SIGNAL                 THRESHOLD  KIND  GRACE PERIOD  MINIMUM RECLAIM
containerfs.available  5%         hard  -             -
imagefs.available      15%        hard  -             -

DERIVED                THRESHOLD  KIND  GRACE PERIOD  MINIMUM RECLAIM  LAYOUT OF THE NODE
containerfs.available  15%        hard  -             -                imagefs
`,
		Errors: "evictctl: warning: no threshold of memory.available is in force: no pod is evicted when memory runs short; want evictionHard[\"memory.available\"], by default 100Mi\n" +
			"evictctl: warning: containerfs.available<5% does not stand where the layout is imagefs: containerfs has the thresholds of imagefs there, as in the kubelet\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("check (-want +got):\n%s", diff)
	}
}

func TestWhatANodeLacks(t *testing.T) {
	n := newNode(t)
	empty := filepath.Join(n.dir, "empty")
	testos.Mkdir(t, empty, 0o755)
	file := filepath.Join(n.dir, "file")
	testos.WriteFile(t, file, "", 0o600)
	deaf := filepath.Join(n.dir, "deaf.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: deaf})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	const runtime = "want the socket of a running container runtime, such as unix:///run/containerd/containerd.sock"
	absent := filepath.Join(n.dir, "absent")
	for name, c := range map[string]struct {
		key, value string
		code       int
		want       string
	}{
		"plugin directory": {
			"pluginDir", absent,
			1,
			`pluginDir: "` + absent + `": does not exist, want a directory of plugin executables`,
		},
		"plugin directory that is a file": {"pluginDir", file, 1, `pluginDir: "` + file + `": is not a directory, want a directory of plugin executables`},
		"plugins": {
			"pluginDir", empty,
			1,
			`pluginDir: "` + empty + `": has no executable in it, want at least one plugin, else no signal is observed`,
		},
		"runtime": {
			"runtimeEndpoint", "unix://" + absent,
			1,
			`runtimeEndpoint: "unix://` + absent + `": does not exist, is the runtime running? ` + runtime,
		},
		"a runtime's socket": {
			"runtimeEndpoint", "unix://" + file,
			1,
			`runtimeEndpoint: "unix://` + file + `": is not a socket, ` + runtime,
		},
		"a runtime behind the socket": {
			"imageEndpoint", "unix://" + deaf,
			1,
			`imageEndpoint: "unix://` + deaf + `": does not answer (dial unix ` + deaf + `: connect: connection refused), ` + runtime,
		},
		"manifests": {
			"podManifestDir", absent,
			1,
			`podManifestDir: "` + absent + `": does not exist, want a directory of v1.Pod manifests, as a pod without one is never evicted`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := n.with(c.key, c.value).check(t)
			if got.Code != c.code || got.Errors != "evictctl: "+c.want+"\n" {
				t.Errorf("check: exit code %d and\n%swant %d and\nevictctl: %s", got.Code, got.Errors, c.code, c.want)
			}
		})
	}
}

func TestBadUse(t *testing.T) {
	n := newNode(t)
	file := filepath.Join(n.dir, "evictd.yaml")
	testos.WriteFile(t, file, "mode: k8s\nevictionHrad: {}\n", 0o600)
	badFile := file + `: evictionHrad: unknown field, want "evictionHard"` + "\n" + file + `: mode: "k8s": want "cri" or "kubernetes"`
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no command":                {[]string{}, "no command given, want check, evictions, explain, observe, plugins, protect-node, rank, replay, report, uninstall-cluster, uninstall-node or version (evictctl --help)"},
		"unknown command":           {[]string{"runk"}, "unknown command \"runk\" for \"evictctl\"\nDid you mean this?\nrank"},
		"a former command":          {[]string{"doctor"}, "unknown command \"doctor\" for \"evictctl\"\nDid you mean this?\ncheck"},
		"unknown flag":              {[]string{"check", "--evict"}, "unknown flag: --evict, see evictctl check --help"},
		"flag of a key":             {[]string{"check", "--run-dir=/r"}, "unknown flag: --run-dir, set runDir in the file of --config"},
		"flag of no key":            {[]string{"version", "--run-dir=/r"}, "unknown flag: --run-dir, see evictctl version --help"},
		"argument":                  {[]string{"check", "evictd.yaml"}, `unknown command "evictd.yaml" for "evictctl check"`},
		"flag without word":         {[]string{"check", "--config"}, "flag needs an argument: --config, see evictctl check --help"},
		"check of a bad file":       {[]string{"check", "--config", file}, badFile},
		"plugins with the bad file": {[]string{"plugins", "--config", file}, badFile + "\nwith --run-dir the daemon is asked whatever the configuration says"},
	} {
		t.Run(name, func(t *testing.T) {
			var want strings.Builder
			for line := range strings.SplitSeq(c.want, "\n") {
				fmt.Fprintf(&want, "evictctl: %s\n", line)
			}
			if diff := cmp.Diff(result{Code: command.ExitUsage, Errors: want.String()}, evictctl(t, c.args...)); diff != "" {
				t.Errorf("%q (-want +got):\n%s", c.args, diff)
			}
		})
	}
}

func TestHelpIsNotAnError(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"help"}, {"check", "--help"}} {
		if got := evictctl(t, args...); got.Code != command.ExitFine || got.Errors != "" || !strings.Contains(got.Out, "Usage:") {
			t.Errorf("%q: %+v, want usage on standard output and exit code 0", args, got)
		}
	}
}

const statusText = `{"version":"v1","thresholds":[{"signal":"pid.available","unobserved":true},{"signal":"memory.available"}],"plugins":[
{"name":"disk","path":"/p/disk","state":"refused","since":"2026-01-01T00:00:00Z","reason":"mode 0644 is not executable\nwant 0755","restarts":0},
{"name":"memory","path":"/p/memory","state":"running","since":"2026-01-01T00:00:00Z","restarts":1,"pid":42,"version":"v1.0","lastError":"observe: timeout",
 "replacement":{"state":"refused","since":"2026-01-01T00:00:00Z","reason":"exited"},
 "signals":[{"signal":"memory.available","offers":["observe","rank"],"inCharge":["observe"],"roles":[
   {"capability":"observe","role":"in charge","why":"only provider"},{"capability":"rank","role":"fallback","why":"custom before built-in"}]},
  {"signal":"allocatableMemory.available","offers":["observe"]}]},
{"name":"oldest","path":"/p/oldest","state":"running","since":"2026-01-01T00:00:00Z","restarts":0,"pid":43,
 "standby":{"since":"2026-01-01T00:00:00Z","until":"2026-01-01T00:10:00Z","reason":"its answers cost 6s of 1m0s"},
 "signals":[{"signal":"memory.available","offers":["rank"],"inCharge":["rank"],"roles":[{"capability":"rank","role":"in charge","why":"custom before built-in"}]}]},
{"name":"spare","path":"/p/spare","state":"quarantined","since":"2026-01-01T00:00:00Z","until":"2026-01-01T00:10:00Z","reason":"exited","restarts":4,
 "signals":[{"signal":"acme.example/spare","offers":["observe"],"roles":[{"capability":"observe","role":"out","why":"quarantined"}]}]}]}`

// serve returns the run directory of a daemon that answers /status.
func serve(t *testing.T, code int, body string) string {
	t.Helper()
	return serveAll(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/status" {
			t.Errorf("asked for %s, want /status", r.URL.Path)
		}
		w.WriteHeader(code)
		_, _ = fmt.Fprint(w, body)
	})
}

func serveAll(t *testing.T, h http.HandlerFunc) (runDir string) {
	t.Helper()
	runDir = daemon.RunDir(t)
	l, err := httpserver.ListenLocal(rundir.SocketOf(runDir))
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
	return runDir
}

func TestPluginsOfTheDaemon(t *testing.T) {
	runDir := serve(t, http.StatusOK, statusText)
	got := evictctl(t, "plugins", "--run-dir", runDir)
	want := result{Out: `PLUGIN  STATE        PID  VERSION  RESTARTS  SIGNAL                       OFFERS        IN CHARGE OF  WHY
disk    refused      -    -        0         -                            -             -             mode 0644 is not executable want 0755
memory  running      42   v1.0     1         memory.available             observe,rank  observe       replacement failed: exited; observe: timeout
                                             allocatableMemory.available  observe       -              
oldest  running      43   -        0         memory.available             rank          rank          asked after all others until 2026-01-01T00:10:00Z: its answers cost 6s of 1m0s
spare   quarantined  -    -        4         acme.example/spare           observe       -             until 2026-01-01T00:10:00Z; exited

SIGNAL              CAPABILITY  IN CHARGE  WHY                              OTHERS
memory.available    observe     memory     only provider                    -
                    rank        oldest     custom before built-in           memory (fallback)
pid.available       observe     -          no plugin offers it              -
acme.example/spare  observe     -          no plugin that offers it serves  spare (quarantined)
`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
	broken := filepath.Join(t.TempDir(), "evictd.yaml")
	testos.WriteFile(t, broken, "metricsBindAddress: everywhere\n", 0o600)
	if diff := cmp.Diff(want, evictctl(t, "plugins", "--config", broken, "--run-dir", runDir)); diff != "" {
		t.Errorf("plugins with a broken configuration (-want +got):\n%s", diff)
	}
	got = evictctl(t, "plugins", "--run-dir", runDir, "--json")
	var list []map[string]any
	if err := json.Unmarshal([]byte(got.Out), &list); err != nil || len(list) != 4 || list[1]["pid"] != 42.0 {
		t.Errorf("plugins --json: %+v (%v)", got, err)
	}
}

func TestNoDaemonToAsk(t *testing.T) {
	for name, c := range map[string]struct{ runDir, want string }{
		"no socket":          {filepath.Join(t.TempDir(), "run"), "no such file or directory; no evictd has locked run directory "},
		"another listens":    {serve(t, http.StatusNotFound, "no"), "404 Not Found: no, want the status of evictd; does something else listen there?"},
		"no JSON":            {serve(t, http.StatusOK, "<html>"), "want the status of evictd; does something else listen there?"},
		"another's JSON":     {serve(t, http.StatusOK, "{}"), "want the status of evictd; does something else listen there?"},
		"plugins of another": {serve(t, http.StatusOK, `{"plugins": 3}`), "cannot unmarshal number"},
	} {
		t.Run(name, func(t *testing.T) {
			got := evictctl(t, "plugins", "--run-dir", c.runDir)
			if got.Code != command.ExitFailure || got.Out != "" || !strings.Contains(got.Errors, c.want) {
				t.Errorf("plugins: %+v, want exit code 1 and %q", got, c.want)
			}
		})
	}
}

// A run directory that another daemon had left kept evictd from starting, and only "connection
// refused" was said.
func TestNoAnswerNamesWhatTheRunDirectoryShows(t *testing.T) {
	for want, left := range map[string]func(dir string) error{
		"no such file or directory; no evictd has locked run directory ": func(string) error { return nil },
		"no such file or directory; no evictd starts as this user: run directory ": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755))
		},
		"no such file or directory; an evictd has locked run directory ": func(dir string) error {
			d, err := rundir.Open(dir)
			if err == nil {
				t.Cleanup(func() { _ = d.Close() })
			}
			return err
		},
	} {
		dir := t.TempDir()
		run, file := filepath.Join(dir, "run"), filepath.Join(dir, "evictd.yaml")
		if err := errors.Join(left(run), os.WriteFile(file, []byte("runDir: "+run+"\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"plugins", "rank", "observe"} {
			if got := evictctl(t, name, "--config", file); got.Code != command.ExitFailure || !strings.Contains(got.Errors, want+run) {
				t.Errorf("%s: %+v, want exit code 1 and %q", name, got, want)
			}
		}
	}
}

// evictctl rank --signal memory answered with an URL and "404 Not Found", and named no signal.
func TestRankOfASignalWithoutAThresholdNamesThoseThatHaveOne(t *testing.T) {
	const says = `no threshold is in force for the signal: "memory", want one of memory.available, pid.available`
	runDir := serveAll(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, says, http.StatusUnprocessableEntity) })
	got := evictctl(t, "rank", "--signal", "memory", "--run-dir", runDir)
	if got.Code != command.ExitFailure || got.Errors != "evictctl: "+says+"\n" {
		t.Errorf("rank: %+v, want exit code 1 and %s", got, says)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	var errs strings.Builder
	if code := execute(t.Context(), []string{"version"}, brokenPipe{}, &errs); code != command.ExitFailure {
		t.Errorf("exit code %d, want 1: %s", code, errs.String())
	}
}
