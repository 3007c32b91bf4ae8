package config

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/face/beside"
	"github.com/evictd/evictd/host/internal/node/programs"
	"github.com/evictd/evictd/shared/nodefs"
)

// besideKubelet compares an own file with a kubelet's file, by key.
func besideKubelet(t *testing.T, own, kubelet string) map[string]beside.Finding {
	t.Helper()
	c, err := Load(write(t, "nodeName: node-1\n"+own))
	if err != nil {
		t.Fatal(err)
	}
	k, err := LoadKubelet(nodefs.FS{}, programs.Kubelet{File: writeKubelet(t, kubelet)})
	if err != nil {
		t.Fatal(err)
	}
	ours, err := c.Thresholds()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]beside.Finding{}
	for _, f := range slices.Concat(beside.Compare(ours, k.Thresholds, beside.Node{}), k.Beside(&c)) {
		all[f.Signal] = f
	}
	return all
}

// A kubelet with podLogsDir, cgroupRoot or a socket elsewhere was not mentioned, and pods had no logs or no use.
func TestAKubeletsSettingThatDiffersIsNotMentioned(t *testing.T) {
	const signal = "memory.available"
	values := map[string]struct {
		kubelet, own string
		about        string // the key, if not its own
		fix          bool
		text         string // up to the line of evictd's file
		line         string
	}{
		"staticPodPath":                    {kubelet: "/etc/kubernetes/manifests", fix: true, text: "evictd has none, the kubelet /etc/kubernetes/manifests", line: `staticPodPath: "/etc/kubernetes/manifests"`},
		"cgroupRoot":                       {kubelet: "kubelet", fix: true, text: "evictd has /, the kubelet /kubelet", line: `cgroupRoot: "/kubelet"`},
		"cgroupsPerQOS":                    {kubelet: "false", fix: true, text: "evictd has true, the kubelet false: " + WithoutPodCgroups + "; want true in the kubelet's file"},
		"podLogsDir":                       {kubelet: "/logs", fix: true, text: "evictd has /var/log/pods, the kubelet /logs", line: `podLogsDir: "/logs"`},
		"containerRuntimeEndpoint":         {kubelet: "/run/crio/crio.sock", own: "rootDir: /host", fix: true, text: "evictd has unix:///run/containerd/containerd.sock, the kubelet unix:///run/crio/crio.sock", line: `runtimeEndpoint: "unix:///host/run/crio/crio.sock"`},
		"imageServiceEndpoint":             {kubelet: "unix:///run/image.sock", fix: true, text: "evictd has unix:///run/containerd/containerd.sock, the kubelet unix:///run/image.sock", line: `imageEndpoint: "unix:///run/image.sock"`},
		"cgroupDriver":                     {kubelet: "systemd", own: "cgroupDriver: cgroupfs", fix: true, text: "evictd has cgroupfs, the kubelet systemd", line: `cgroupDriver: "systemd"`},
		"evictionHard":                     {kubelet: "{memory.available: 1Gi}", about: signal},
		"evictionSoft":                     {kubelet: "{memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}", about: signal},
		"evictionSoftGracePeriod":          {kubelet: "{memory.available: 1m}\nevictionSoft: {memory.available: 1Gi}", about: signal},
		"evictionMinimumReclaim":           {kubelet: "{memory.available: 1Gi}", text: "evictd has none, the kubelet memory.available:1Gi", line: `evictionMinimumReclaim: {"memory.available":"1Gi"}`},
		"evictionMaxPodGracePeriod":        {kubelet: "7", text: "evictd has 0, the kubelet 7", line: "evictionMaxPodGracePeriod: 7"},
		"evictionPressureTransitionPeriod": {kubelet: "1m", text: "evictd has 5m0s, the kubelet 1m0s", line: `evictionPressureTransitionPeriod: "1m0s"`},
		"mergeDefaultEvictionSettings":     {kubelet: "true\nevictionHard: {pid.available: 5%}", own: "evictionHard: {pid.available: 1%}", about: signal},
		"enforceNodeAllocatable":           {kubelet: "[]", text: "evictd has pods, the kubelet none", line: "enforceNodeAllocatable: []"},
		"kernelMemcgNotification":          {kubelet: "false", text: "evictd has true, the kubelet false", line: "kernelMemcgNotification: false"},
		"localStorageCapacityIsolation":    {kubelet: "false", text: "evictd has true, the kubelet false", line: "localStorageCapacityIsolation: false"},
		"featureGates":                     {kubelet: "{PodLevelResources: false}", text: "evictd has none, the kubelet PodLevelResources:false", line: `featureGates: {"PodLevelResources":false}`},
	}
	for key := range kubeletFields() {
		c, ok := values[key]
		if !ok {
			t.Errorf("%s: both configurations have it, and the test has no value that differs", key)
			continue
		}
		about := key
		if c.about != "" {
			about = c.about
		}
		got, ok := besideKubelet(t, c.own, key+": "+c.kubelet)[about]
		text, line, _ := strings.Cut(got.Text, " in evictd's file: ")
		text = strings.TrimSuffix(strings.TrimSuffix(text, "; want"), "; to match, set")
		if !ok || c.about == "" && (got.Fix != c.fix || text != c.text || line != c.line) {
			t.Errorf("%s: %s: %+v, want fix %v, %s: %s", key, c.kubelet, got, c.fix, c.text, c.line)
		}
		if got, ok := besideKubelet(t, "rootDir: /host\n"+line, key+": "+c.kubelet)[key]; line != "" && ok {
			t.Errorf("%s: with %s in evictd's file: %+v", key, line, got)
		}
	}
	if got := besideKubelet(t, "mode: kubernetes", "staticPodPath: /etc/kubernetes/manifests")["staticPodPath"]; got.Fix || got.Text == "" {
		t.Errorf("static pods that the API server has: %+v, want a note", got)
	}
}

// What means the same is not a difference, however it is written, or left out.
func TestASettingThatTheKubeletWritesInAnotherWay(t *testing.T) {
	for name, c := range map[string]struct {
		own     string
		kubelet string
	}{
		"nothing":                             {"", ""},
		"kubeadm's":                           {"", kubeadm},
		"the defaults":                        {"", "cgroupRoot: \"\"\ncontainerRuntimeEndpoint: /run/containerd/containerd.sock\npodLogsDir: /var/log/pods/\nenforceNodeAllocatable: [pods]\nfeatureGates: {PodLevelResources: true}"},
		"a driver that evictd finds out":      {"", "cgroupDriver: systemd"},
		"a driver that the kubelet finds out": {"cgroupDriver: systemd", ""},
		"a socket as evictd's pod sees it":    {"rootDir: /host\nruntimeEndpoint: unix:///host/run/crio/crio.sock", "containerRuntimeEndpoint: unix:///var/run/crio/crio.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			want := map[string]string{"kernelMemcgNotification": "evictd has true, the kubelet false; to match, set in evictd's file: kernelMemcgNotification: false"} // the defaults differ
			if name == "kubeadm's" {
				want["staticPodPath"] = `evictd has none, the kubelet /etc/kubernetes/manifests; want in evictd's file: staticPodPath: "/etc/kubernetes/manifests"`
			}
			got := map[string]string{}
			for key, f := range besideKubelet(t, c.own, c.kubelet) {
				if f.About == beside.Setting {
					got[key] = f.Text
				}
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}
