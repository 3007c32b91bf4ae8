package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A vendor has a plugin of its own in a cluster.
type vendor struct {
	*chart

	root  string // of the repository
	calm  *v1.Pod
	cache string // a directory on the kubelet's filesystem
}

// Vendors' plugins in one cluster: as a DaemonSet of the vendor's, as a container of evictd's pod and as an executable
// that evictd starts.
func TestVendorsPluginsInACluster(t *testing.T) {
	kubelet := narrow(t)
	c := start(t, cluster.Options{
		Kubelet: kubelet, Filesystems: []stack.Filesystem{{Path: "node", Type: "ext4", Bytes: 1 << 30}}, KubeletRoot: "node/kubelet",
	})
	hard := leaveToEvictd(t, c, kubelet)
	v := &vendor{chart: newChart(t, c), calm: deploy(t, c, "calm", sleeper()), cache: filepath.Join(c.Dir, "node", "cache")}
	var err error
	v.root, err = filepath.Abs("../../..")
	must(t, err)
	must(t, os.Mkdir(v.cache, 0o755))
	v.values["dryRun"] = false
	v.values["config"] = map[string]any{
		"cgroupRoot": c.CgroupRoot, "healthzBindAddress": v.probed, "evictionHard": memoryAlone(hard), "evictionPressureTransitionPeriod": "1s",
	}

	t.Run("a disk plugin empties its cache", func(t *testing.T) { v.emptiesItsCache(t) })
	t.Run("a ranker in Python", func(t *testing.T) { v.ranksInPython(t) })
	t.Run("of two the first by name", func(t *testing.T) { v.first(t) })
	t.Run("a bad image costs its own answer", func(t *testing.T) { v.badImages(t) })
	t.Run("one that is refused is seen", func(t *testing.T) { v.refused(t) })
}

// emptiesItsCache takes a disk plugin from an empty folder to a cache that is emptied in place of a pod.
func (v *vendor) emptiesItsCache(t *testing.T) {
	const image = "registry.example.org/cache-disk:0.1.0"
	dir := filepath.Join(t.TempDir(), "cache-disk")
	command(t, "", filepath.Join(v.root, "bin/evictctl"), "plugins", "new", "cache-disk", "--disk", "--sdk", v.root, "--dir", dir)
	command(t, dir, "go", "build", "-trimpath", "-o", "bin/cache-disk", ".")
	command(t, dir, filepath.Join(v.root, "bin/evictctl"), "plugins", "image", "bin/cache-disk", image)
	must(t, v.c.ImportArchive(soon(t), filepath.Join(dir, "cache-disk_0.1.0_oci.tar"), image))
	settings := map[string]any{"config": map[string]any{"cacheDir": v.cache, "minAge": "0s"}}
	listed := func(more map[string]any) []any {
		maps.Copy(more, map[string]any{"name": "cache-disk", "image": image, "config": settings["config"]})
		return []any{more}
	}
	config := v.values["config"].(map[string]any)

	config["plugins"] = map[string]any{"cache-disk": settings}
	v.fill(t)
	pods := filepath.Join(v.c.Dir, "vendor.yaml")
	must(t, os.WriteFile(pods, fmt.Appendf(nil, "image: %s\npullPolicy: Never\npluginDir: %s\nwritablePaths: [%s]\n", image, filepath.Join(v.c.Dir, "evictd", "plugins"), v.cache), 0o600))
	out, err := v.try(t, time.Minute, "install", "cache-disk", filepath.Join(dir, "chart"), "--create-namespace", "--values", pods)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	v.helm(t, "install")
	v.emptied(t, "by pods of its own")
	if _, err := v.try(t, time.Minute, "uninstall", "cache-disk"); err != nil {
		t.Fatal(err)
	}

	delete(config, "plugins")
	v.values["plugins"] = listed(map[string]any{
		"container": true, "volumes": []any{map[string]any{"name": "cache", "hostPath": map[string]any{"path": v.cache}}},
		"volumeMounts": []any{map[string]any{"name": "cache", "mountPath": "/host" + v.cache}},
	})
	v.refill(t)
	v.helm(t, "install")
	v.emptied(t, "by a container of evictd's pod")

	v.values["plugins"] = listed(map[string]any{"path": "/cache-disk", "writablePaths": []any{v.cache}, "capabilities": []any{"CAP_DAC_OVERRIDE"}})
	v.refill(t)
	v.helm(t, "install")
	v.emptied(t, "by a child of evictd")
	delete(v.values, "plugins")
	hard := config["evictionHard"].(map[string]any)
	hard["nodefs.available"] = nil
}

// refill fills the cache while no evictd runs: one without the plugin would evict a pod within milliseconds.
func (v *vendor) refill(t *testing.T) {
	t.Helper()
	v.helm(t, "uninstall")
	v.fill(t)
}

// fill writes 300 MB into the cache, which is more than the threshold allows.
func (v *vendor) fill(t *testing.T) {
	t.Helper()
	for i := range 3 {
		must(t, os.WriteFile(filepath.Join(v.cache, strconv.Itoa(i)), bytes.Repeat([]byte("x"), 100e6), 0o600))
	}
	unix.Sync() // ext4 takes the blocks when it writes
	var fs unix.Statfs_t
	must(t, unix.Statfs(v.c.KubeletRootDir, &fs))
	v.values["config"].(map[string]any)["evictionHard"].(map[string]any)["nodefs.available"] = strconv.FormatInt(int64(fs.Bavail)*fs.Bsize+100e6, 10)
}

// emptied waits until the cache is empty and that was enough, and no pod has gone.
func (v *vendor) emptied(t *testing.T, by string) {
	t.Helper()
	began := time.Now()
	for ctx := soon(t); ; must(t, stack.Pause(ctx, 200*time.Millisecond)) {
		files, err := os.ReadDir(v.cache)
		must(t, err)
		logs, _ := v.c.Kubectl(ctx, "", "-n", "evictd", "logs", "ds/evictd", "-c", "evictd")
		if len(files) == 0 && strings.Contains(logs, "reclaim was enough, no pod has to go") {
			break
		}
	}
	t.Logf("  300 MB are released %s, %.1f s after helm", by, time.Since(began).Seconds())
	unharmed(t, v.c, v.calm)
}

// ranksInPython runs the example of plugins in Python in a pod of its own.
func (v *vendor) ranksInPython(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import grpc, google.protobuf").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := filepath.Join(v.c.Dir, "spot-first")
	command(t, "", filepath.Join(v.root, "bin/evictctl"), "plugins", "new", "spot-first", "--python", "--dir", dir)
	v.helm(t, "upgrade")
	began := time.Now()
	mount := `{name: %s, mountPath: %s, readOnly: true}`
	host := `{name: %s, hostPath: {path: %s}}`
	var mounts, volumes []string
	for name, at := range map[string][2]string{"usr": {"/usr", "/usr"}, "lib": {"/usr/lib", "/lib"}, "lib64": {"/usr/lib64", "/lib64"}, "plugin": {dir, "/plugin"}} {
		mounts, volumes = append(mounts, fmt.Sprintf(mount, name, at[1])), append(volumes, fmt.Sprintf(host, name, at[0]))
	}
	pluginDir := filepath.Join(v.c.Dir, "evictd", "plugins")
	deploy(t, v.c, "spot-first", fmt.Sprintf(`{hostNetwork: true, terminationGracePeriodSeconds: 1, containers: [
      {name: main, image: %s, imagePullPolicy: Never, command: [/usr/bin/python3, -I, /plugin], env: [{name: EVICTD_PLUGIN_SOCKET, value: /run/evictd-plugins/20-spot.sock}],
       volumeMounts: [{name: plugins, mountPath: /run/evictd-plugins}, %s]}], volumes: [{name: plugins, hostPath: {path: %s}}, %s]}`,
		stack.PodImage, strings.Join(mounts, ", "), pluginDir, strings.Join(volumes, ", ")))
	took := v.awaitRanker(t, "20-spot")
	t.Logf("  in charge %.1f s after the pod was applied, %.1f s after it ran", time.Since(began).Seconds(), took.Seconds())
	if time.Since(began) > 15*time.Second {
		t.Error("in charge too late, want within 15 s")
	}

	socket := filepath.Join(pluginDir, "20-spot.sock")
	former, err := os.Lstat(socket)
	must(t, err)
	must(t, unix.Kill(v.pidOf(t, "20-spot"), unix.SIGKILL))
	t.Logf("  killed: the built-in one is in charge after %.1f s", v.awaitRanker(t, "memory").Seconds())
	for ctx := soon(t); ; must(t, stack.Pause(ctx, 10*time.Millisecond)) {
		if now, err := os.Lstat(socket); err == nil && !os.SameFile(now, former) {
			break
		}
	}
	back := v.awaitRanker(t, "20-spot")
	t.Logf("  back %.2f s after its socket", back.Seconds())
	if back > 3*time.Second { // 0.3 s on a machine that does nothing else
		t.Error("back too late, want it as soon as its socket is there")
	}
	_, err = v.c.Kubectl(soon(t), "", "delete", "deployment", "spot-first", "--cascade=foreground", "--wait")
	must(t, err)
	t.Logf("  deleted: the built-in one is in charge after %.1f s", v.awaitRanker(t, "memory").Seconds())
}

// first runs two rankers of two vendors.
func (v *vendor) first(t *testing.T) {
	image := os.Getenv("EVICTD_IMAGE_NAME")
	v.values["plugins"] = []any{
		map[string]any{"name": "20-second", "image": image, "path": "/usr/libexec/evictd/examples/oldest"},
		map[string]any{"name": "10-first", "image": image, "container": true, "command": []any{"/usr/libexec/evictd/examples/oldest"}},
	}
	v.helm(t, "upgrade")
	v.awaitRanker(t, "10-first")
	v.values["plugins"] = v.values["plugins"].([]any)[:1]
	v.helm(t, "upgrade")
	v.awaitRanker(t, "20-second")
}

// badImages rolls out plugins whose images lack the file, or cannot be pulled. evictd did not start for one of them.
func (v *vendor) badImages(t *testing.T) {
	image := os.Getenv("EVICTD_IMAGE_NAME")
	v.values["plugins"] = []any{
		map[string]any{"name": "directory", "image": image, "path": "/usr/bin"},
		map[string]any{"name": "good", "image": image, "path": "/usr/libexec/evictd/examples/oldest"},
		map[string]any{"name": "no-file", "image": image, "path": "/nowhere/acme"},
		map[string]any{"name": "no-image", "image": "registry.invalid/acme:1", "path": "/acme"},
	}
	if out, err := v.upgrade(t, 12*time.Second); err == nil {
		t.Errorf("helm upgrade --wait has succeeded: %s", out)
	}
	v.awaitRanker(t, "good")
	for plugin, why := range map[string]string{
		"directory": "not copied from its image: /usr/bin: is a directory, want a regular file",
		"no-file":   "not copied from its image: /nowhere/acme: no such file or directory",
		"no-image":  "the container plugin-no-image of this pod has not copied it yet",
	} {
		for ctx := soon(t); ; must(t, stack.Pause(ctx, askEvery)) {
			if _, said := v.healthz(t); strings.Contains(said, "plugin "+plugin+": refused: "+why) {
				t.Log("  " + said)
				break
			}
		}
		if out := kubectlEvictd(t, v.c, "plugins"); !strings.Contains(out, why) {
			t.Errorf("kubectl evictd plugins: %s, want %s: %s", out, plugin, why)
		}
	}
	class, err := v.c.Kubectl(soon(t), "", "-n", "evictd", "get", "pods", "-o", "jsonpath={.items[*].status.qosClass}")
	if must(t, err); class != string(v1.PodQOSGuaranteed) {
		t.Errorf("QoS class %s, want Guaranteed", class)
	}
}

// refused rolls out plugins that cannot serve: each rollout fails, and evictd says why and evicts all the same.
func (v *vendor) refused(t *testing.T) {
	image := os.Getenv("EVICTD_IMAGE_NAME")
	ranker := func(more map[string]any) map[string]any {
		p := map[string]any{"name": "acme", "image": image, "path": "/usr/libexec/evictd/examples/oldest"}
		maps.Copy(p, more)
		return p
	}
	all := map[string]map[string]any{
		"has sha256":                  ranker(map[string]any{"sha256": strings.Repeat("0", 64)}),
		"it takes no configuration":   ranker(map[string]any{"config": map[string]any{"no-such-field": 1}}),
		"nobody-here":                 ranker(map[string]any{"user": "nobody-here"}),
		"memoryLimit: 1073741824":     ranker(map[string]any{"memoryLimit": "1Gi"}),
		"exited before the handshake": ranker(map[string]any{"path": "/usr/bin/evictd"}),
		"is not there":                {"name": "acme", "image": image, "container": true, "command": []any{"/usr/bin/evictd", "version"}},
	}
	spec, station := newHog(t, v.c, "hog", 1536)
	deploy(t, v.c, "hog", spec)
	for cause, plugin := range all {
		if cause != "it takes no configuration" && cause != "is not there" && os.Getenv("EVICTD_NIGHTLY") == "" {
			continue // each waits for a rollout that fails
		}
		v.values["plugins"] = []any{plugin}
		out, err := v.upgrade(t, 12*time.Second)
		if err == nil {
			t.Errorf("%s: helm upgrade --wait has succeeded: %s", cause, out)
		}
		code, said := v.healthz(t)
		t.Logf("  /healthz %d: %s", code, said)
		if code != http.StatusServiceUnavailable || !strings.Contains(said, "plugin acme: ") || !strings.Contains(said, cause) {
			t.Errorf("/healthz %d: %s, want it to name acme and %s", code, said, cause)
		}
	}
	if out := kubectlEvictd(t, v.c, "plugins"); !strings.Contains(out, "acme") {
		t.Errorf("kubectl evictd plugins: %s, want acme in it", out)
	}
	must(t, station.Release(soon(t)))
	awaitPod(soon(t), t, v.c, "hog", endedWithReason)
	unharmed(t, v.c, v.calm)
	delete(v.values, "plugins")
	v.helm(t, "upgrade")
	v.helm(t, "uninstall")
}

// upgrade tries to roll out the values.
func (v *vendor) upgrade(t *testing.T, timeout time.Duration) (string, error) {
	t.Helper()
	text, err := yaml.Marshal(v.values)
	must(t, err)
	file := filepath.Join(v.c.Dir, "values.yaml")
	must(t, os.WriteFile(file, text, 0o600))
	return v.try(t, timeout, "upgrade", "evictd", filepath.Join(v.root, "deploy/chart"), "--values", file)
}

func (v *vendor) healthz(t *testing.T) (code int, said string) {
	t.Helper()
	for ctx := soon(t); ; must(t, stack.Pause(ctx, askEvery)) { // it may be about to start
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+v.probed+"/healthz", nil)
		must(t, err)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			continue
		}
		raw, err := io.ReadAll(answer.Body)
		must(t, errors.Join(err, answer.Body.Close()))
		return answer.StatusCode, string(raw)
	}
}

const askEvery = 50 * time.Millisecond

type pluginStatus struct {
	Name, State string
	PID         int
	Signals     []struct {
		Signal   string
		InCharge []string
	}
}

func (v *vendor) plugins(ctx context.Context, t *testing.T) []pluginStatus {
	t.Helper()
	return ask(ctx, t, v.runDir).Plugins
}

func (v *vendor) pidOf(t *testing.T, plugin string) int {
	t.Helper()
	for _, p := range v.plugins(soon(t), t) {
		if p.Name == plugin {
			return p.PID
		}
	}
	t.Fatalf("there is no plugin %s", plugin)
	return 0
}

// awaitRanker waits until a plugin ranks for memory, and returns how long that took.
func (v *vendor) awaitRanker(t *testing.T, plugin string) time.Duration {
	t.Helper()
	began := time.Now()
	for ctx := soon(t); ; must(t, stack.Pause(ctx, askEvery)) {
		for _, p := range v.plugins(ctx, t) {
			for _, s := range p.Signals {
				if p.Name == plugin && s.Signal == "memory.available" && strings.Contains(strings.Join(s.InCharge, " "), "rank") {
					return time.Since(began)
				}
			}
		}
	}
}

func command(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
}
