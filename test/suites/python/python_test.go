package python

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/contained"
	"github.com/evictd/evictd/test/harness/daemon"
)

const (
	example = "../../../sdk/examples/python-rank"
	// interpreter is Debian's, which has Debian's modules; another one may come first
	// in the path.
	interpreter = "/usr/bin/python3"
	gib         = int64(1) << 30
	// maxWait is for what a loaded machine does late; a start is half a second.
	maxWait = 10 * time.Second
)

// plugin returns the path of the example, built.
func plugin(t *testing.T) string {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs real processes: run make test")
	}
	if out, err := exec.CommandContext(t.Context(), interpreter, "-c", "import grpc, google.protobuf").CombinedOutput(); err != nil {
		absent := fmt.Sprintf("the plugin in Python cannot run: %v: apt-get install python3-grpcio python3-protobuf\n%s", err, out)
		if os.Getenv("CI") == "true" {
			t.Fatal(absent)
		}
		t.Skip("NOT TESTED: " + absent)
	}
	file := filepath.Join(t.TempDir(), "python-rank")
	if out, err := exec.CommandContext(t.Context(), filepath.Join(example, "build.sh"), file).CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	return file
}

// copied returns a copy of the example, with the descriptor that it has in the checkout elsewhere.
func copied(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	descriptor, err := os.ReadFile("../../../shared/proto/descriptor.binpb")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "descriptor.binpb"), descriptor, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A copy looked for the descriptor where only the checkout has it.
func TestACopyOfTheExampleBuilds(t *testing.T) {
	if _, err := os.Stat(interpreter); err != nil {
		t.Skip("NOT TESTED: needs ", interpreter)
	}
	build := exec.CommandContext(t.Context(), filepath.Join(copied(t), "build.sh"), "mine")
	build.Dir = t.TempDir()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(build.Dir, "mine")); err != nil {
		t.Error(err)
	}
}

// The steps that evictctl plugins new prints.
func TestANewPluginInPythonPassesItsTestsAndKeepsTheContract(t *testing.T) {
	plugin(t)
	evictctl, dir := daemon.Build(t, "evictctl"), filepath.Join(t.TempDir(), "spot-first")
	for _, command := range [][]string{
		{evictctl, "plugins", "new", "spot-first", "--python", "--dir", dir},
		{interpreter, "-m", "unittest"},
		{"sh", "build.sh", "bin/spot-first"},
		{evictctl, "plugins", "verify", "bin/spot-first"},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		if command[2] != "new" {
			cmd.Dir = dir
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
	}
	// As its Dockerfile starts it.
	contained.Serves(t, "spot-first", interpreter, "-I", dir)
}

func TestThePluginInPythonServesInAContainer(t *testing.T) {
	contained.Serves(t, "python-rank", plugin(t))
}

// What a call raised by mistake was "Exception calling application" and no more.
func TestAnExceptionsTracebackIsInTheLog(t *testing.T) {
	plugin(t)
	dir := copied(t)
	main := testos.ReadFile(t, filepath.Join(dir, "__main__.py"))
	wrong := strings.Replace(string(main), "def rank_pods(request):\n", "def rank_pods(request):\n    {}['tier']\n", 1)
	testos.WriteFile(t, filepath.Join(dir, "__main__.py"), wrong, 0o600)
	file := filepath.Join(dir, "wrong")
	if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "build.sh"), file).CombinedOutput(); err != nil {
		t.Fatalf("build.sh: %v\n%s", err, out)
	}
	p := contained.Start(t, file)
	_, err := p.Ranker.Rank(t.Context(), eviction.RankRequest{Signal: eviction.MemoryAvailable})
	if err == nil || !strings.Contains(err.Error(), "KeyError: 'tier' (__main__.py:") {
		t.Errorf("the call ends with %v, want the exception and its line", err)
	}
	var record map[string]string
	if err := json.Unmarshal([]byte(p.End(t, syscall.SIGTERM)), &record); err != nil {
		t.Fatal(err)
	}
	if record["@level"] != "error" || record["@message"] != "call failed" || record["call"] != "Rank" || !strings.Contains(record["traceback"], "in rank_pods") {
		t.Errorf("log %q, want the call and its traceback", record)
	}
}

// Its protobuf reads the bytes 00 01 as an empty message, with a warning, where
// others refuse them. Both keep the contract.
func TestAPluginInPlainPythonKeepsTheContract(t *testing.T) {
	file := plugin(t)
	for name, flags := range map[string][]string{
		"with TLS":    nil,
		"without TLS": {"--auto-mtls=false"},
		"configured":  {"--config", configured(t)},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"plugins", "verify"}, append(flags, file)...)
			out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), args...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), " 0 failed") {
				t.Errorf("evictctl plugins verify: %v\n%s", err, out)
			}
			for _, check := range []string{"garbage-describe", "garbage-configure", "garbage-rank", "rank-deterministic"} {
				if !strings.Contains(string(out), "ok       "+check+"\n") {
					t.Errorf("%s is not ok:\n%s", check, out)
				}
			}
		})
	}
}

func configured(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	testos.WriteFile(t, file, "first: oldest\n", 0o644)
	return file
}

// As an operator would run it: as nobody, within the default limits.
func TestThePluginInPythonSaysWhoGoes(t *testing.T) {
	for name, c := range map[string]struct {
		config map[string]any
		victim string
	}{
		"by default":    {nil, "new"},
		"as it is told": {map[string]any{"first": "oldest"}, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			node, runtime := daemon.NewNode(t, 8*gib), fakecri.Start(t)
			plugins, manifests, run := daemon.PluginDir(t), t.TempDir(), daemon.RunDir(t)
			if err := os.Chmod(run, 0o711); err != nil { // the plugin is another user
				t.Fatal(err)
			}
			daemon.Install(t, plugin(t), filepath.Join(plugins, "python-rank"))
			for i, name := range []string{"old", "new"} {
				node.AddPod("besteffort", "uid-"+name, gib)
				added := runtime.Add(fakecri.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Containers: []fakecri.Container{
					{Name: "main", OnTerm: func() { node.SetAvailable(6 * gib) }},
				}})
				node.AddContainers("besteffort", "uid-"+name, added.ContainerIDs)
				manifest := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default, uid: uid-%[1]s}\n"+
					"spec: {containers: [{name: main, image: none}]}\nstatus: {startTime: \"2026-01-0%dT00:00:00Z\"}\n", name, i+1)
				testos.WriteFile(t, filepath.Join(manifests, name+".yaml"), manifest, 0o644)
			}
			d := daemon.Start(t, map[string]any{
				"pluginDir": plugins, "runDir": run, "rootDir": node.Root, "podManifestDir": manifests,
				"runtimeEndpoint": runtime.Endpoint(), "monitoringInterval": "50ms",
				"evictionHard": map[string]string{"memory.available": "1Gi"},
				"plugins":      map[string]any{"python-rank": map[string]any{"user": "nobody", "config": c.config}},
			})
			d.AwaitReady()
			node.SetAvailable(gib / 4)
			got := d.AwaitMsg("evicting pod", maxWait)
			if got.String("pod") != "default/"+c.victim || got.String("ranker") != "python-rank" {
				t.Errorf("%s by %s because of %q, want default/%s by python-rank", got.String("pod"), got.String("ranker"), got.String("rankReason"), c.victim)
			}
		})
	}
}
