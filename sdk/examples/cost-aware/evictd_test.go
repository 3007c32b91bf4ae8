package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

func TestItsProcessKeepsTheContract(t *testing.T) {
	requireProcesses(t)
	sdktest.RunBinary(t, daemon.Build(t, "cost-aware"), sdktest.Config(config{UnpricedHourlyUSD: "0.1"}))
}

func requireProcesses(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs real processes: run make test")
	}
}

// In the real evictd, with prices from real manifests: the kubelet would evict
// large.
func TestTheCheapPodGoes(t *testing.T) {
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
metadata: {name: %s, namespace: default, uid: uid-%s, annotations: {%s: %q}}
spec: {containers: [{name: main, image: none}]}
`, name, name, priceKey, p.price)
		if err := os.WriteFile(filepath.Join(manifests, name+".yaml"), manifest, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pluginDir := daemon.PluginDir(t, "memory", "cost-aware")
	d := daemon.Start(t, map[string]any{
		"pluginDir":       pluginDir,
		"plugins":         map[string]any{"cost-aware": map[string]any{"config": map[string]any{"unpricedHourlyUSD": "1"}}},
		"evictionHard":    map[string]string{"memory.available": "1Gi"},
		"rootDir":         node.Root,
		"runtimeEndpoint": runtime.Endpoint(),
		"podManifestDir":  manifests,
	})
	d.AwaitReady()
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
	again, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictd"), "replay", "--config", d.ConfigFile, "--with", d.ConfigFile, "--plugin-dir", pluginDir, evicting.String("record")).CombinedOutput()
	if err != nil || !strings.HasSuffix(strings.TrimSpace(string(again)), ": default/cheap goes, as recorded") {
		t.Errorf("replayed: %v\n%s", err, again)
	}
}
