package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

func TestItsProcessKeepsTheContract(t *testing.T) {
	requireProcesses(t)
	n := newNode(t, "")
	n.runAgent(t)
	sdktest.RunBinary(t, daemon.Build(t, "nvme-spare"), sdktest.Node(n.facts()), sdktest.Config(config{MaxAge: "10s"}))
}

func requireProcesses(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs real processes: run make test")
	}
}

// A drive wears out under two pods, in the real evictd. The one that writes goes.
func TestThePodThatWritesLeavesAWornDrive(t *testing.T) {
	requireProcesses(t)
	machine := daemon.NewNode(t, 8<<30)
	n := node{root: machine.Root}
	runtime, manifests := fakecri.Start(t), t.TempDir()
	for name, written := range map[string]int64{"reader": 1 * mib, "writer": 900 * mib} {
		// Of the memory hierarchy, as with each pod: it shows how cgroups are named.
		machine.AddPod("besteffort", "uid-"+name, mib)
		n.write(t, "sys/fs/cgroup/blkio/kubepods/besteffort/poduid-"+name+"/blkio.throttle.io_service_bytes_recursive",
			fmt.Sprintf("259:0 Read 0\n259:0 Write %d\nTotal %d\n", written, written))
		runtime.Add(fakecri.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Containers: []fakecri.Container{{Name: "main"}}})
		manifest := fmt.Appendf(nil, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default, uid: uid-%s}\nspec: {containers: [{name: main, image: none}]}\n", name, name)
		if err := os.WriteFile(filepath.Join(manifests, name+".yaml"), manifest, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n.write(t, smartLog, `{"avail_spare":11}`)
	d := daemon.Start(t, map[string]any{
		"pluginDir":          daemon.PluginDir(t, "nvme-spare"),
		"plugins":            map[string]any{"nvme-spare": map[string]any{"config": map[string]any{"device": "259:0"}}},
		"evictionHard":       map[string]string{string(signal): "10"},
		"monitoringInterval": "50ms",
		"rootDir":            n.root,
		"runtimeEndpoint":    runtime.Endpoint(),
		"podManifestDir":     manifests,
	})
	d.AwaitReady()
	d.Await("the figure of a drive that is good enough", 10*time.Second, func(r evictd.Record) bool {
		return r.Msg == "signal observed" && r.String("available") == "11"
	})

	n.write(t, smartLog, `{"avail_spare":9}`)
	evicting := d.AwaitMsg("evicting pod", 10*time.Second)
	t.Logf("%s: %s", evicting.String("pod"), evicting.String("message"))
	const message = "The node was low on resource: acme.example/nvme-spare. Threshold quantity: 10, available: 9."
	if evicting.String("pod") != "default/writer" || evicting.String("ranker") != "nvme-spare" || !strings.HasPrefix(evicting.String("message"), message) {
		t.Errorf("evicting %v, want default/writer with %q", evicting.Attrs, message)
	}
	if got, want := evicting.String("rankReason"), "priority 0, has written 900 MiB"; got != want {
		t.Errorf("reason %q, want %q", got, want)
	}
	if _, status := d.Get("/status"); !strings.Contains(status, `"acme.example/NVMeWearPressure"`) {
		t.Errorf("no condition acme.example/NVMeWearPressure in\n%s", status)
	}
	d.AwaitMsg("pod finished", 10*time.Second)
	// The same figure is not acted on twice.
	passes := len(d.Records("pass"))
	d.Await("some more passes", 10*time.Second, func(evictd.Record) bool { return len(d.Records("pass")) > passes+10 })
	if !runtime.Running("uid-reader") {
		t.Error("the other pod went too, without a new figure")
	}
	// Nothing has come back: the next pod goes with a figure of ten seconds later.
	next := func() bool {
		return slices.ContainsFunc(d.Records("evicting pod"), func(r evictd.Record) bool { return r.String("pod") == "default/reader" })
	}
	for end := time.Now().Add(20 * time.Second); !next(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the next pod has not gone with the next figures")
		}
		n.write(t, smartLog, `{"avail_spare":9}`)
	}
}
