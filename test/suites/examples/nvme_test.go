package examples

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

// smartLog is the file that a vendor's agent writes, below the node's root.
const smartLog = "run/acme/nvme0.json"

func TestNVMeSpareKeepsTheContract(t *testing.T) {
	requireProcesses(t)
	root := t.TempDir()
	runAgent(t, root)
	sdktest.RunBinary(t, daemon.Build(t, "nvme-spare"), sdktest.Config(map[string]string{"maxAge": "10s"}),
		sdktest.Node(eviction.NodeFacts{RootDir: root, CgroupRoot: "/", CgroupDriver: "cgroupfs"}))
}

// runAgent writes the file of the drive again and again until the test ends, so that figures are fresh.
func runAgent(t *testing.T, root string) {
	t.Helper()
	name := filepath.Join(root, smartLog)
	testos.Put(t, name, `{"avail_spare":93}`, 0o644)
	ctx, stop := context.WithCancel(t.Context())
	var agent sync.WaitGroup
	agent.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if err := errors.Join(os.WriteFile(name+".tmp", []byte(`{"avail_spare":93}`), 0o644), os.Rename(name+".tmp", name)); err != nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() { stop(); agent.Wait() })
}

// A drive wears out under two pods, in the real evictd. The one that writes goes.
func TestThePodThatWritesLeavesAWornDrive(t *testing.T) {
	requireProcesses(t)
	machine := daemon.NewNode(t, 8<<30)
	write := func(name, content string) { testos.Put(t, filepath.Join(machine.Root, name), content, 0o644) }
	runtime, manifests := fakecri.Start(t), t.TempDir()
	for name, written := range map[string]int64{"reader": 1 * mib, "writer": 900 * mib} {
		// Of the memory hierarchy, as with each pod: it shows how cgroups are named.
		machine.AddPod("besteffort", "uid-"+name, mib)
		write("sys/fs/cgroup/blkio/kubepods/besteffort/poduid-"+name+"/blkio.throttle.io_service_bytes_recursive",
			fmt.Sprintf("259:0 Read 0\n259:0 Write %d\nTotal %d\n", written, written))
		runtime.Add(fakecri.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Containers: []fakecri.Container{{Name: "main"}}})
		manifest := fmt.Appendf(nil, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default, uid: uid-%s}\nspec: {containers: [{name: main, image: none}]}\n", name, name)
		testos.WriteFile(t, filepath.Join(manifests, name+".yaml"), manifest, 0o644)
	}
	write(smartLog, `{"avail_spare":11}`)
	d := daemon.Start(t, map[string]any{
		"pluginDir":          daemon.PluginDir(t, "nvme-spare"),
		"plugins":            map[string]any{"nvme-spare": map[string]any{"config": map[string]any{"device": "259:0"}}},
		"evictionHard":       map[string]string{"acme.example/nvme.spare": "10"},
		"monitoringInterval": "50ms",
		"rootDir":            machine.Root,
		"runtimeEndpoint":    runtime.Endpoint(),
		"podManifestDir":     manifests,
	})
	d.AwaitReady()
	d.Await("the figure of a drive that is good enough", 10*time.Second, func(r evictd.Record) bool {
		return r.Msg == "signal observed" && r.String("available") == "11"
	})

	write(smartLog, `{"avail_spare":9}`)
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
		write(smartLog, `{"avail_spare":9}`)
	}
}
