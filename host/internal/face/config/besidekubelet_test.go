package config

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/face/beside"
)

// besideKubelet compares an own file with a kubelet's file, by key.
func besideKubelet(t *testing.T, own, kubelet string) map[string]beside.Finding {
	t.Helper()
	c, err := Load(write(t, "nodeName: node-1\n"+own))
	if err != nil {
		t.Fatal(err)
	}
	k, err := LoadKubelet(writeKubelet(t, kubelet), "")
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
		kubelet string
		own     string
		about   string // the key, if not its own
		fix     bool
		text    string
	}{
		"staticPodPath":                    {kubelet: "/etc/kubernetes/manifests", text: "evictd has none, the kubelet /etc/kubernetes/manifests"},
		"cgroupRoot":                       {kubelet: "kubelet", fix: true, text: "evictd has /, the kubelet /kubelet: cgroupRoot must name the same as the kubelet's cgroupRoot"},
		"cgroupsPerQOS":                    {kubelet: "false", text: "evictd has true, the kubelet false"},
		"podLogsDir":                       {kubelet: "/logs", fix: true, text: "evictd has /var/log/pods, the kubelet /logs: podLogsDir must name the same as the kubelet's podLogsDir"},
		"containerRuntimeEndpoint":         {kubelet: "/run/crio/crio.sock", fix: true, text: "evictd has unix:///run/containerd/containerd.sock, the kubelet unix:///run/crio/crio.sock: runtimeEndpoint must name the same as the kubelet's containerRuntimeEndpoint"},
		"imageServiceEndpoint":             {kubelet: "unix:///run/image.sock", fix: true, text: "evictd has unix:///run/containerd/containerd.sock, the kubelet unix:///run/image.sock: imageEndpoint must name the same as the kubelet's imageServiceEndpoint"},
		"cgroupDriver":                     {kubelet: "systemd", own: "cgroupDriver: cgroupfs", fix: true, text: "evictd has cgroupfs, the kubelet systemd: cgroupDriver must name the same as the kubelet's cgroupDriver"},
		"evictionHard":                     {kubelet: "{memory.available: 1Gi}", about: signal},
		"evictionSoft":                     {kubelet: "{memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}", about: signal},
		"evictionSoftGracePeriod":          {kubelet: "{memory.available: 1m}\nevictionSoft: {memory.available: 1Gi}", about: signal},
		"evictionMinimumReclaim":           {kubelet: "{memory.available: 1Gi}", text: "evictd has none, the kubelet memory.available:1Gi"},
		"evictionMaxPodGracePeriod":        {kubelet: "7", text: "evictd has 0, the kubelet 7"},
		"evictionPressureTransitionPeriod": {kubelet: "1m", text: "evictd has 5m0s, the kubelet 1m0s"},
		"mergeDefaultEvictionSettings":     {kubelet: "true\nevictionHard: {pid.available: 5%}", own: "evictionHard: {pid.available: 1%}", about: signal},
		"enforceNodeAllocatable":           {kubelet: "[]", text: "evictd has pods, the kubelet none"},
		"kernelMemcgNotification":          {kubelet: "false", text: "evictd has true, the kubelet false"},
		"localStorageCapacityIsolation":    {kubelet: "false", text: "evictd has true, the kubelet false"},
		"featureGates":                     {kubelet: "{PodLevelResources: false}", text: "evictd has none, the kubelet PodLevelResources:false"},
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
		if !ok || c.about == "" && (got.Fix != c.fix || got.Text != c.text) {
			t.Errorf("%s: %s: %+v, want fix %v, %s", key, c.kubelet, got, c.fix, c.text)
		}
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
			want := map[string]string{"kernelMemcgNotification": "evictd has true, the kubelet false"} // the defaults differ
			if name == "kubeadm's" {
				want["staticPodPath"] = "evictd has none, the kubelet /etc/kubernetes/manifests"
			}
			got := map[string]string{}
			for key, f := range besideKubelet(t, c.own, c.kubelet) {
				if f.About == beside.Setting {
					got[key] = f.Text
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}
