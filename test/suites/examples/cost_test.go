package examples

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

const mib = 1 << 20

func TestCostAwareKeepsTheContract(t *testing.T) {
	requireProcesses(t)
	sdktest.RunBinary(t, daemon.Build(t, "cost-aware"), sdktest.Config(map[string]string{"unpricedHourlyUSD": "0.1"}))
}

func requireProcesses(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs real processes: run make test")
	}
}

// start starts the real evictd with three pods whose prices are in real manifests: the kubelet would evict large.
func start(t *testing.T, assign map[string]any) (*daemon.Node, *daemon.Daemon) {
	t.Helper()
	requireProcesses(t)
	node, runtime, manifests := daemon.NewNode(t, 8<<30), fakecri.Start(t), t.TempDir()
	for name, p := range map[string]struct {
		price   string
		usedMiB int64
	}{"large": {"2", 2000}, "cheap": {"0.02", 200}, "cheap-words": {"a bargain", 100}} {
		node.AddPod("besteffort", "uid-"+name, p.usedMiB*mib)
		runtime.Add(fakecri.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Containers: []fakecri.Container{{
			Name: "main", OnTerm: func() { node.SetAvailable(6 << 30) },
		}}})
		manifest := fmt.Appendf(nil, `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, uid: uid-%s, annotations: {cost.acme.example/hourly-usd: %q}}
spec: {containers: [{name: main, image: none}]}
`, name, name, p.price)
		testos.WriteFile(t, filepath.Join(manifests, name+".yaml"), manifest, 0o644)
	}
	d := daemon.Start(t, map[string]any{
		"pluginDir":       daemon.PluginDir(t, "memory", "cost-aware"),
		"assign":          assign,
		"plugins":         map[string]any{"cost-aware": map[string]any{"config": map[string]any{"unpricedHourlyUSD": "1"}}},
		"evictionHard":    map[string]string{"memory.available": "1Gi"},
		"rootDir":         node.Root,
		"runtimeEndpoint": runtime.Endpoint(),
		"podManifestDir":  manifests,
	})
	d.AwaitReady()
	return node, d
}

func TestTheCheapPodGoes(t *testing.T) {
	node, d := start(t, nil)
	node.SetAvailable(256 * mib)
	evicting := d.AwaitMsg("evicting pod", 10*time.Second)
	want := `["default/cheap (0.02 USD/h, exceeds request by 200Mi, priority 0)",` +
		`"default/cheap-words (price \"a bargain\" is none, counts as 1 USD/h, exceeds request by 100Mi, priority 0)",` +
		`"default/large (2 USD/h, exceeds request by 1.9Gi, priority 0)"]`
	if evicting.String("pod") != "default/cheap" || evicting.String("ranker") != "cost-aware" || evicting.String("ranking") != want {
		t.Errorf("evicting %s, ranked by %s\n%s\nwant default/cheap by cost-aware\n%s", evicting.String("pod"), evicting.String("ranker"), evicting.String("ranking"), want)
	}
	d.AwaitMsg("pod finished", 10*time.Second)

	// Its record replays as it was decided: the prices are in it. Without them large would go.
	if got := replay(t, d, evicting.String("record")); !strings.HasSuffix(got, ": default/cheap goes, as recorded") {
		t.Errorf("replayed:\n%s", got)
	}
}

// A plugin that is not in charge is asked afterwards, with the prices of that time.
func TestWhatItWouldHaveDone(t *testing.T) {
	node, d := start(t, map[string]any{"memory.available": map[string]string{"rank": "memory"}})
	node.SetAvailable(256 * mib)
	if got := d.AwaitMsg("evicting pod", 10*time.Second); got.String("pod") != "default/large" || got.String("ranker") != "memory" {
		t.Errorf("evicting %s, ranked by %s, want default/large by memory", got.String("pod"), got.String("ranker"))
	}
	d.AwaitMsg("pod finished", 10*time.Second)
	if got := replay(t, d, "--since", "7d"); !strings.HasSuffix(got, ": default/cheap goes instead of default/large") {
		t.Errorf("replayed:\n%s", got)
	}
}

// replay replays records of d with the ranker in its pluginDir and its configuration.
func replay(t *testing.T, d *daemon.Daemon, records ...string) string {
	t.Helper()
	args := append([]string{"replay", "--config", d.ConfigFile, "--with", d.ConfigFile, "--plugin-dir", d.Config()["pluginDir"].(string)}, records...)
	out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), args...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}
