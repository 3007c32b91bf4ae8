package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

// What run would refuse, or a plugin of its, check must not pass.
func TestCheckTellsWhatRunWouldRefuse(t *testing.T) {
	const content = "#!/bin/sh\n"
	sum := sha256.Sum256([]byte(content))
	pin := hex.EncodeToString(sum[:])
	for name, c := range map[string]struct {
		config string
		change func(n node) error
		code   int
		want   string // PLUGINS stands for the directory
	}{
		"all is well": {"plugins: {oldest: {sha256: " + pin + "}}", nil, 0, ""},
		"a plugin directory that others can write to": {
			"", func(n node) error { return os.Chmod(n.plugins, 0o777) }, 1,
			"plugin directory PLUGINS: PLUGINS: mode 0777 is writable by others than its owner, want at most 0755 (chmod go-w)",
		},
		"a plugin that others can write to": {
			"", func(n node) error { return os.Chmod(filepath.Join(n.plugins, "oldest"), 0o777) }, 1,
			"plugin oldest: PLUGINS/oldest: mode 0777 is writable by others than its owner, want at most 0755 (chmod go-w)",
		},
		"a user that is not there": {
			"plugins: {oldest: {user: nosuchuser}}", nil, 1,
			`plugin oldest: user: "nosuchuser": user: unknown user nosuchuser, want the name of a user of this machine or a number`,
		},
		"another file than the pinned one": {
			"plugins: {oldest: {sha256: " + strings.Repeat("0f", 32) + "}}", nil, 1,
			"plugin oldest: PLUGINS/oldest: has sha256 " + pin + ", want " + strings.Repeat("0f", 32),
		},
		"no pin where there must be one": {
			"requirePins: true", nil, 1, "plugin oldest: it has no pin, want its hash in plugins.oldest.sha256: requirePins is on",
		},
		"a plugin that does not start with its configuration": {
			"plugins: {oldest: {config: {order: age}}}", nil, 1, "plugin oldest: exited before the handshake (exit status 0)",
		},
		"a configuration that nobody could look at": {
			"plugins: {oldest: {user: nosuchuser, config: {order: age}}}", nil, 1,
			`plugin oldest: user: "nosuchuser": user: unknown user nosuchuser, want the name of a user of this machine or a number` + "\n" +
				"evictctl: plugin oldest: its configuration was not checked because it cannot be started",
		},
		"a configuration beside a runtime that is away": {
			"plugins: {oldest: {config: {order: age}}}", func(n node) error { return os.Remove(n.socket) }, 1,
			`runtimeEndpoint: "unix://SOCKET": does not exist, is the runtime running? want the socket of a running container runtime, such as unix:///run/containerd/containerd.sock` + "\n" +
				"evictctl: plugin oldest: exited before the handshake (exit status 0)",
		},
		"configurations in a directory that is refused": {
			"plugins: {oldest: {config: {order: age}}}", func(n node) error { return os.Chmod(n.plugins, 0o777) }, 1,
			"plugin directory PLUGINS: PLUGINS: mode 0777 is writable by others than its owner, want at most 0755 (chmod go-w)\n" +
				"evictctl: plugin configurations were not checked because no plugin of PLUGINS can be started",
		},
		"a slip in the name of a disabled plugin": {
			"plugins: {oldst: {disabled: true}}", nil, 0,
			`warning: plugins["oldst"] has no effect: PLUGINS/oldst is not there, is "oldest" meant?`,
		},
		"nobody minds a disabled plugin": {"plugins: {oldest: {disabled: true, user: nosuchuser}}", nil, 0, ""},
		"a file that is no plugin, such as a copy": {
			"", func(n node) error { return os.WriteFile(filepath.Join(n.plugins, "README"), nil, 0o644) }, 0,
			`warning: pluginDir: "PLUGINS": not started: README; want names of the form [a-z0-9-]+, with .sock for a socket`,
		},
		"a slip in a plugin's name": {
			"plugins: {oldst: {sha256: " + pin + "}}", nil, 1,
			`plugin oldst: is not there: want PLUGINS/oldst or PLUGINS/oldst.sock, or plugins.oldst.required: false, is "oldest" meant?`,
		},
		"a slip in the name of a plugin that is not required": {
			"plugins: {oldst: {required: false, sha256: " + pin + "}}", nil, 0,
			`warning: plugins["oldst"] has no effect: PLUGINS/oldst is not there, is "oldest" meant?`,
		},
		"an assignment to a plugin that is not there": {
			"assign: {memory.available: {rank: gpu}}", nil, 0,
			`warning: assign["memory.available"].rank has no effect: PLUGINS/gpu is not there`,
		},
		"no directory of the kubelet": {
			"evictionHard: {nodefs.available: 10%, memory.available: 100Mi}\nkubeletRootDir: /nonexistent", nil, 0,
			`warning: kubeletRootDir: "/nonexistent": does not exist, want the directory of the pods' directories: nodefs is its filesystem, and without it no disk signal is observed`,
		},
		"a broken manifest": {
			"", func(n node) error {
				return os.WriteFile(filepath.Join(n.manifests, "a.yaml"), []byte("kind: Pod\n"), 0o600)
			}, 0,
			`warning: pod manifest MANIFESTS/a.yaml: is apiVersion "", kind "Pod", want apiVersion "v1", kind "Pod"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			testos.Remove(t, filepath.Join(n.plugins, "memory"))
			testos.WriteFile(t, filepath.Join(n.plugins, "oldest"), content, 0o755)
			file := filepath.Join(n.dir, "evictd.yaml")
			config := "pluginDir: " + n.plugins + "\npodManifestDir: " + n.manifests + "\nruntimeEndpoint: unix://" + n.socket +
				"\nrunDir: " + n.dir + "/run\nstateDir: " + n.dir + "/state\n" + c.config + "\n"
			for field, value := range map[string]string{"kubeletRootDir": n.dir, "evictionHard": "{memory.available: 100Mi}"} {
				if !strings.Contains(config, field) {
					config += field + ": " + value + "\n"
				}
			}
			testos.WriteFile(t, file, config, 0o600)
			if c.change != nil {
				if err := c.change(n); err != nil {
					t.Fatal(err)
				}
			}
			got := evictctl(t, "check", "--config", file, fmt.Sprintf("--start-plugins=%t", strings.Contains(c.config, "config:")))
			const off = "evictctl: warning: thresholds of allocatableMemory.available, memory.available have no effect: no plugin in pluginDir observes them; want one that does, or no such thresholds\n"
			got.Errors = strings.Replace(got.Errors, off, "", 1) // where plugins are started
			want := ""
			if c.want != "" {
				want = "evictctl: " + strings.NewReplacer("PLUGINS", n.plugins, "MANIFESTS", n.manifests, "SOCKET", n.socket).Replace(c.want) + "\n"
			}
			if got.Code != c.code {
				t.Errorf("exit code %d, want %d", got.Code, c.code)
			}
			if diff := cmp.Diff(want, got.Errors); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A kernel without the counters left the threshold without effect, and without a word.
func TestCheckNamesACustomSignalThatTheNodeLacks(t *testing.T) {
	n, machine := newNode(t), daemon.NewNode(t, 8<<30)
	testos.Symlink(t, daemon.Build(t, "pressure"), filepath.Join(n.plugins, "pressure"))
	testos.WriteFile(t, filepath.Join(machine.Root, "proc/vmstat"), "nr_free_pages 1\n", 0o600)
	file := filepath.Join(n.dir, "evictd.yaml")
	testos.WriteFile(t, file, "pluginDir: "+n.plugins+"\npodManifestDir: "+n.manifests+"\nruntimeEndpoint: unix://"+n.socket+
		"\nrunDir: "+n.dir+"/run\nstateDir: "+n.dir+"/state\nkubeletRootDir: "+n.dir+"\nrootDir: "+machine.Root+"\nevictionHard: {memory.available: 100Mi, evictd.io/memory.headroom: 10%}\n", 0o600)
	const want = "evictctl: warning: thresholds of evictd.io/memory.headroom have no effect: /proc/vmstat has neither workingset_refault_file nor pgscan_direct; want a node"
	if got := evictctl(t, "check", "--config", file); !strings.Contains(got.Errors, want) {
		t.Errorf("%s\nwant %s", got.Errors, want)
	}
}

// check passed an assignment that splits a filesystem in the layout of now, with which
// run started with an error and refused each later reload.
func TestCheckRefusesAnAssignmentThatSplitsAFilesystemOfThisNode(t *testing.T) {
	const lines = `assign["nodefs.available"].rank is "cache-disk" and assign["imagefs.available"].rank is "disk": with the layout shared they are one filesystem, want one plugin for both`
	for name, c := range map[string]struct {
		images string // where the runtime says that they are
		more   string
		code   int
	}{
		"the layout of now":            {"here", "", command.ExitFailure},
		"another layout":               {"/proc", "", 0},
		"the runtime does not tell":    {"", "", 0},
		"somebody else says where":     {"here", ", observe: cache-disk", 0},
		"a runtime that does not live": {"nobody", "", command.ExitFailure},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			socket := filepath.Join(n.dir, "images.sock")
			if c.images != "nobody" {
				s := fakecri.New()
				if err := s.Listen(socket); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.Die)
				if c.images != "" {
					s.SetImageDir(strings.Replace(c.images, "here", n.dir, 1))
				}
			}
			for _, p := range []string{"disk", "cache-disk"} {
				testos.WriteFile(t, filepath.Join(n.plugins, p), "#!/bin/sh\n", 0o755)
			}
			file := filepath.Join(n.dir, "evictd.yaml")
			config := "assign: {imagefs.available: {rank: disk}, nodefs.available: {rank: cache-disk" + c.more + "}}\n"
			testos.WriteFile(t, file, config, 0o600)
			got := n.with("imageEndpoint", "unix://"+socket).check(t, "--config", file, "--eviction-hard", "memory.available<1Gi")
			reported := strings.Contains(got.Errors, lines)
			warned := strings.Contains(got.Errors, "warning: "+lines)
			if got.Code != c.code || reported != (c.images != "/proc") || warned != (reported && c.images != "here" || c.more != "") {
				t.Errorf("exit code %d, want %d; told %v, as a warning %v: %s", got.Code, c.code, reported, warned, got.Errors)
			}
		})
	}
}

// A cgroup driver that is not the node's has every pod without figures, and the wrong
// one go.
func TestCheckRefusesAnotherCgroupDriverThanTheNodes(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup, config string
		refused        bool
	}{
		"cgroupfs on a node of systemd": {"kubepods.slice/kubepods-podx.slice", "cgroupDriver: cgroupfs", true},
		"systemd on a node of cgroupfs": {"kubepods/podx", "cgroupDriver: systemd", true},
		"the node's":                    {"kubepods/podx", "cgroupDriver: cgroupfs", false},
		"not given":                     {"kubepods.slice/kubepods-podx.slice", "", false},
		"nobody can tell yet":           {"system.slice", "cgroupDriver: systemd", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			socket := filepath.Join(n.dir, "old.sock") // of a runtime that does not tell
			runtime := fakecri.New()
			if err := runtime.Listen(socket); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(runtime.Die)
			runtime.SetImageDir("/")
			memory := filepath.Join(n.dir, "sys/fs/cgroup/memory")
			testos.MkdirAll(t, filepath.Join(memory, c.cgroup), 0o755)
			testos.WriteFile(t, filepath.Join(memory, "memory.usage_in_bytes"), "", 0o600)
			file := filepath.Join(n.dir, "evictd.yaml")
			testos.WriteFile(t, file, c.config, 0o600)
			got := n.with("rootDir", n.dir).with("kubeletRootDir", "/").with("runtimeEndpoint", "unix://"+socket).check(t, "--config", file)
			both := strings.Contains(got.Errors, `cgroupDriver: "cgroupfs": the cgroup driver of this node is "systemd"`) ||
				strings.Contains(got.Errors, `cgroupDriver: "systemd": the cgroup driver of this node is "cgroupfs"`)
			if (got.Code == command.ExitFailure) != c.refused || both != c.refused {
				t.Errorf("exit code %d and %q, want refused %v, with both names", got.Code, got.Errors, c.refused)
			}
		})
	}
}

// The shipped example beside a kubelet evicted no pod, and check did not say so.
func TestCheckFindsAKubeletWhosePodsHaveNoManifest(t *testing.T) {
	const said = `mode: "cri": a kubelet runs on this node, and 1 of its pods have no manifest in podManifestDir, so they are never evicted; want "kubernetes"`
	for name, c := range map[string]struct {
		source   string // of the pod, "" if no kubelet has made it
		manifest string // of another pod
		want     string
	}{
		"of its API server":                    {"api", "", "evictctl: " + said},
		"beside one that has a manifest":       {"api", "b", "evictctl: warning: " + said},
		"from a file, as beside no API server": {"file", "", ""},
		"no kubelet has made it":               {"", "", ""},
		"a manifest of it":                     {"api", "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n, s := newNode(t), fakecri.New()
			socket := filepath.Join(n.dir, "kubelet.sock")
			if err := s.Listen(socket); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Die)
			annotations := map[string]string{}
			if c.source != "" {
				annotations["kubernetes.io/config.source"] = c.source
			}
			s.Add(fakecri.Pod{UID: "uid-a", Namespace: "default", Name: "a", Annotations: annotations, Containers: []fakecri.Container{{Name: "main"}}})
			s.Add(fakecri.Pod{UID: "uid-b", Namespace: "default", Name: "b", Containers: []fakecri.Container{{Name: "main"}}})
			if c.manifest != "" {
				text := "apiVersion: v1\nkind: Pod\nmetadata: {name: " + c.manifest + ", namespace: default, uid: uid-" + c.manifest + "}\nspec: {containers: [{name: main, image: none}]}\n"
				testos.WriteFile(t, filepath.Join(n.manifests, "pod.yaml"), text, 0o600)
			}
			got := n.with("runtimeEndpoint", "unix://"+socket).check(t)
			if c.want == "" && strings.Contains(got.Errors, "kubelet runs") || !strings.Contains(got.Errors, c.want) {
				t.Errorf("%s, want %s", got.Errors, c.want)
			}
		})
	}
}

// check gives advice on its standard output: on its standard error lines are for the operator to
// clear before the start.
func TestCheckAdvisesToProtectTheNode(t *testing.T) {
	root, _ := systemdNode(t)
	args := append([]string{"check", "--start-plugins=false"}, newNode(t).with("rootDir", root).flags(t, "--eviction-hard", "memory.available<1%")...)
	got := evictctl(t, args...)
	if !strings.Contains(got.Out, "\nmemory.min protects too little (system.slice 0 of 108 MiB, ") || strings.Contains(got.Errors, "memory.min") {
		t.Errorf("%s%s", got.Out, got.Errors)
	}
	if got := evictctl(t, append(args, "--json")...); !strings.Contains(got.Out, `"advice": [`) {
		t.Errorf("--json: %s", got.Out)
	}
}
