package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

// nobody owns pods' directories and the cache, and lets nobody else in.
const nobody = 65534

// pod runs a pod with an emptyDir, which is on the scratch disk. Its files go when
// it is stopped, as the kubelet would have it.
func (m *machine) pod(name string, bytes int64) (volume string) {
	m.t.Helper()
	uid := "uid-" + name
	volume = m.mkdir(filepath.Join(m.kubelet, "pods", uid, "volumes", "kubernetes.io~empty-dir", "work"))
	m.write(filepath.Join(volume, "result"), bytes, 0)
	m.must(errors.Join(os.Chown(volume, nobody, nobody), os.Chmod(volume, 0o700)))
	m.runtime.Add(fakecri.Pod{UID: uid, Namespace: "default", Name: name, Containers: []fakecri.Container{{
		Name: "main", OnTerm: func() { _ = os.RemoveAll(volume) }, // the test looks at the disk
	}}})
	m.must(os.WriteFile(filepath.Join(m.manifests, name+".yaml"), fmt.Appendf(nil, `apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, uid: %s}
spec:
  containers: [{name: main, image: none, volumeMounts: [{name: work, mountPath: /work}]}]
  volumes: [{name: work, emptyDir: {}}]
`, name, uid), 0o644))
	return volume
}

// evictd runs with acme-disk alone. The threshold is a quarter of the scratch disk.
func (m *machine) evictd() *daemon.Daemon {
	m.t.Helper()
	d := daemon.Start(m.t, map[string]any{
		"pluginDir": daemon.PluginDir(m.t, "acme-disk"),
		"plugins": map[string]any{"acme-disk": map[string]any{
			"config":       m.config(40),
			"capabilities": []string{"IPC_LOCK", "DAC_READ_SEARCH", "DAC_OVERRIDE", "SYS_PTRACE", "SYS_ADMIN"},
		}},
		"evictionHard":       map[string]string{"nodefs.available": "14Mi"},
		"monitoringInterval": "100ms",
		"runtimeEndpoint":    m.runtime.Endpoint(),
		"podManifestDir":     m.manifests,
		"kubeletRootDir":     m.kubelet,
		"podLogsDir":         m.logs,
		"cgroupRoot":         "/evictd-test-none",
	})
	d.AwaitReady()
	return d
}

func TestItKeepsTheContract(t *testing.T) {
	m := newMachine(t)
	m.fill(20)
	options := []sdktest.Option{sdktest.Node(m.facts()), sdktest.Config(m.config(60)), sdktest.Reclaim()}
	t.Run("plugin", func(t *testing.T) { sdktest.Run(t, plugin(), options...) })
	m.fill(20)
	t.Run("process", func(t *testing.T) { sdktest.RunBinary(t, daemon.Build(t, "acme-disk"), options...) })
}

// The scratch disk fills up twice, and the kubelet's disk, on which /var/lib/kubelet
// would be, never. At first the cache is in the way, then a pod.
func TestTheCacheGoesFirstAndThenThePodThatUsesMost(t *testing.T) {
	m := newMachine(t)
	m.pod("small", 2*mib)
	big := m.pod("big", 8*mib)
	m.fill(20)
	m.run("chown", "-R", "nobody", m.cache)
	m.run("chmod", "-R", "u=rwX,go=", m.cache)
	d := m.evictd()
	t.Logf("%d %% of the scratch disk is available, the threshold is about 25 %%", m.availablePercent())

	m.write(filepath.Join(big, "more"), 16*mib, 0)
	step := d.AwaitMsg("reclaim step ended", 10*time.Second)
	if step.String("step") != dropCache || step.String("by") != "acme-disk" || step.String("error") != "" {
		t.Errorf("the first step is %v, want %s by acme-disk", step.Attrs, dropCache)
	}
	d.AwaitMsg("reclaim was enough, no pod has to go", 10*time.Second)
	left := m.left(20)
	t.Logf("%s: %d of 20 files left, %d %% available", step.String("message"), left, m.availablePercent())
	if left == 0 || len(d.Records("evicting pod")) != 0 || len(m.runtime.Calls(fakecri.StopContainer)) != 0 {
		t.Errorf("%d files are left and %d pods were evicted, want some and none", left, len(d.Records("evicting pod")))
	}

	m.write(filepath.Join(big, "still more"), 16*mib, 0)
	evicting := d.AwaitMsg("evicting pod", 10*time.Second)
	t.Logf("%s", evicting.String("message"))
	if evicting.String("pod") != "default/big" || evicting.String("ranker") != "acme-disk" ||
		!strings.Contains(evicting.String("message"), "The node was low on resource: ephemeral-storage.") {
		t.Errorf("evicting %v, want default/big for ephemeral-storage", evicting.Attrs)
	}
	d.AwaitMsg("pod finished", 10*time.Second)
	if m.left(20) != 0 || m.runtime.Running("uid-big") || !m.runtime.Running("uid-small") {
		t.Errorf("%d files of the cache are left, big runs: %v, small runs: %v; want none, false, true",
			m.left(20), m.runtime.Running("uid-big"), m.runtime.Running("uid-small"))
	}
}
