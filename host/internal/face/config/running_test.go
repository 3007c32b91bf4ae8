package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/node/programs"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

const ofKubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// ranProcess has the files of a process in /proc.
func ranProcess(pid, comm string, cmdline ...string) map[string]string {
	return map[string]string{
		"/proc/" + pid + "/comm": comm + "\n", "/proc/" + pid + "/cmdline": strings.Join(cmdline, "\x00") + "\x00",
		"/proc/" + pid + "/cgroup": "0::/system.slice/kubelet.service\n",
	}
}

// On AKS, k3s, MicroK8s and Talos the comparison was off, as their kubelet's settings are in no file of the node, or not in its
// flags. Nodes as distributions set them up.
func TestTheKubeletIsFoundWhereverItsSettingsAre(t *testing.T) {
	const rancher = ofKubelet + "containerRuntimeEndpoint: unix:///run/k3s/containerd/containerd.sock\nevictionHard: {imagefs.available: 5%, nodefs.available: 5%}\n"
	const defaults = "imagefs.available<15% imagefs.inodesFree<5% memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5%"
	for name, c := range map[string]struct {
		processes []map[string]string
		files     map[string]string
		hard      string
		soft      string
		memory    string // reserved
		runtime   string
		err       string
	}{
		"kubeadm": {
			processes: []map[string]string{ranProcess("812", "kubelet", "/usr/bin/kubelet", "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf", "--kubeconfig=/etc/kubernetes/kubelet.conf",
				"--config=/var/lib/kubelet/config.yaml", "--pod-infra-container-image=registry.k8s.io/pause:3.10")},
			files: map[string]string{"/var/lib/kubelet/config.yaml": ofKubelet + "kubeReserved: {memory: 300Mi}\n"},
			hard:  defaults, memory: "300Mi",
		},
		"EKS, Amazon Linux 2023": {
			processes: []map[string]string{ranProcess("1402", "kubelet", "/usr/bin/kubelet", "--config=/etc/kubernetes/kubelet/config.json", "--config-dir=/etc/kubernetes/kubelet/config.json.d", "--hostname-override=i-0")},
			files: map[string]string{
				"/etc/kubernetes/kubelet/config.json":                `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "evictionHard": {"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"}, "kubeReserved": {"memory": "442Mi"}}`,
				"/etc/kubernetes/kubelet/config.json.d/00-user.conf": ofKubelet + "evictionSoft: {memory.available: 500Mi}\nevictionSoftGracePeriod: {memory.available: 1m}\n",
			},
			hard: "memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5%", soft: "memory.available<500Mi/1m0s", memory: "442Mi",
		},
		"EKS, Bottlerocket": {
			processes: []map[string]string{ranProcess("1100", "kubelet", "/usr/bin/kubelet", "--cloud-provider", "external", "--kubeconfig", "/etc/kubernetes/kubelet/kubeconfig", "--config", "/etc/kubernetes/kubelet/config",
				"--container-runtime-endpoint=unix:///run/containerd/containerd.sock", "--containerd=/run/containerd/containerd.sock")},
			files: map[string]string{"/etc/kubernetes/kubelet/config": ofKubelet + "evictionHard: {memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%}\n"},
			hard:  "memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5%", runtime: "unix:///run/containerd/containerd.sock",
		},
		"GKE": {
			processes: []map[string]string{ranProcess("2051", "kubelet", "/home/kubernetes/bin/kubelet", "--v=2", "--cloud-provider=external", "--config", "/home/kubernetes/kubelet-config.yaml", "--kubeconfig=/var/lib/kubelet/kubeconfig")},
			files:     map[string]string{"/home/kubernetes/kubelet-config.yaml": ofKubelet + "evictionHard: {memory.available: 100Mi, nodefs.available: 10%, nodefs.inodesFree: 5%, pid.available: 10%}\nkubeReserved: {memory: 1019Mi}\n"},
			hard:      "memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% pid.available<10%", memory: "1019Mi",
		},
		"AKS": {
			processes: []map[string]string{ranProcess("3310", "kubelet", "/opt/bin/kubelet", "--enable-server", "--v=2", "--kubeconfig=/var/lib/kubelet/kubeconfig", "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
				"--cgroups-per-qos=true", "--enforce-node-allocatable=pods", "--event-qps=0", "--eviction-hard=memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,pid.available<2000",
				"--eviction-soft=memory.available<500Mi", "--eviction-soft-grace-period=memory.available=30s", "--kube-reserved=cpu=100m,memory=1843Mi", "--feature-gates=PodLevelResources=false,Other=true")},
			hard: "memory.available<100Mi nodefs.available<10% nodefs.inodesFree<5% pid.available<2k", soft: "memory.available<500Mi/30s", memory: "1843Mi", runtime: "unix:///run/containerd/containerd.sock",
		},
		"AKS with a custom configuration: flags beat it": {
			processes: []map[string]string{ranProcess("3310", "kubelet", "/opt/bin/kubelet", "--config=/etc/default/kubeletconfig.json", "--eviction-hard=memory.available<750Mi", "--eviction-hard=nodefs.available<10%")},
			files:     map[string]string{"/etc/default/kubeletconfig.json": `{"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "evictionHard": {"memory.available": "100Mi"}}`},
			hard:      "memory.available<750Mi nodefs.available<10%",
		},
		"k3s": {
			processes: []map[string]string{ranProcess("640", "k3s-server", "/usr/local/bin/k3s server")},
			files: map[string]string{
				"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/00-k3s-defaults.conf":              rancher,
				"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d/20-cli-config-dir/10-reserve.conf": ofKubelet + "systemReserved: {memory: 200Mi}\n",
			},
			hard: "imagefs.available<5% nodefs.available<5%", memory: "200Mi", runtime: "unix:///run/k3s/containerd/containerd.sock",
		},
		"k3s before 1.32": {
			processes: []map[string]string{ranProcess("640", "k3s-agent", "/usr/local/bin/k3s agent")},
			hard:      "imagefs.available<5% nodefs.available<5%",
		},
		"k3s with arguments": {
			processes: []map[string]string{ranProcess("640", "k3s-server", "/usr/local/bin/k3s", "server", "--kubelet-arg", "kube-reserved=memory=1Gi")},
			files: map[string]string{
				"/etc/rancher/k3s/config.yaml":            "kubelet-arg:\n- \"eviction-hard=memory.available<200Mi,nodefs.available<5%\"\n",
				"/etc/rancher/k3s/config.yaml.d/own.yaml": "kubelet-arg+: eviction-soft=memory.available<1Gi\nother: [1]\n",
				"/etc/rancher/k3s/config.yaml.d/too.yaml": "kubelet-arg+: [\"eviction-soft-grace-period=memory.available=90s\"]\n",
			},
			hard: "memory.available<200Mi nodefs.available<5%", soft: "memory.available<1Gi/1m30s", memory: "1Gi",
		},
		"RKE2": {
			processes: []map[string]string{
				ranProcess("600", "rke2", "/usr/local/bin/rke2", "agent"),
				ranProcess("900", "kubelet", "kubelet", "--volume-plugin-dir=/var/lib/kubelet/volumeplugins", "--config-dir=/var/lib/rancher/rke2/agent/etc/kubelet.conf.d", "--kubeconfig=/var/lib/rancher/rke2/agent/kubelet.kubeconfig"),
			},
			files: map[string]string{"/var/lib/rancher/rke2/agent/etc/kubelet.conf.d/00-rke2-defaults.conf": rancher},
			hard:  "imagefs.available<5% nodefs.available<5%", runtime: "unix:///run/k3s/containerd/containerd.sock",
		},
		"k0s": {
			processes: []map[string]string{ranProcess("700", "kubelet", "/var/lib/k0s/bin/kubelet", "--root-dir=/var/lib/k0s/kubelet", "--config=/var/lib/k0s/kubelet-config.yaml", "--kubeconfig=/var/lib/k0s/kubelet.conf", "--v=1")},
			files:     map[string]string{"/var/lib/k0s/kubelet-config.yaml": ofKubelet + "containerRuntimeEndpoint: unix:///run/k0s/containerd.sock\n"},
			hard:      defaults, runtime: "unix:///run/k0s/containerd.sock",
		},
		"MicroK8s": {
			processes: []map[string]string{ranProcess("501", "kubelite", "/snap/microk8s/7000/kubelite", "--kubelet-args-file=/var/snap/microk8s/7000/args/kubelet", "--start-control-plane=true")},
			files:     map[string]string{"/var/snap/microk8s/7000/args/kubelet": "--kubeconfig=${SNAP_DATA}/credentials/kubelet.config\n--eviction-hard=\"memory.available<100Mi,nodefs.available<1Gi,imagefs.available<1Gi\"\n--container-runtime-endpoint=${SNAP_COMMON}/run/containerd.sock\n"},
			hard:      "imagefs.available<1Gi memory.available<100Mi nodefs.available<1Gi",
		},
		"Talos: a kubelet in a container": {
			processes: []map[string]string{ranProcess("1500", "kubelet", "/usr/local/bin/kubelet", "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubeconfig", "--config=/etc/kubernetes/kubelet.yaml")},
			files:     map[string]string{"/proc/1500/root/etc/kubernetes/kubelet.yaml": ofKubelet + "evictionHard: {memory.available: 200Mi}\n", "/etc/kubernetes/kubelet.yaml": "of another kubelet\n", "/proc/1/ns/mnt": "-> mnt:[1]", "/proc/1500/ns/mnt": "-> mnt:[2]"},
			hard:      "memory.available<200Mi",
		},
		"a relative file": {
			processes: []map[string]string{ranProcess("44", "kubelet", "./kubelet", "--config", "kubelet.yaml")},
			files:     map[string]string{"/srv/kubelet.yaml": ofKubelet + "evictionHard: {memory.available: 1Gi}\n", "/proc/44/cwd": "-> /srv"},
			hard:      "memory.available<1Gi",
		},
		"a kubelet in a pod is another node's": {
			processes: []map[string]string{{"/proc/9/comm": "kubelet\n", "/proc/9/cmdline": "kubelet\x00--kubeconfig=/k", "/proc/9/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope\n"}},
			err:       "no kubelet runs here; want the path of its file",
		},
		"a kubelet of a node in a container, as kind's": {
			processes: []map[string]string{ranProcess("9", "kubelet", "kubelet", "--kubeconfig=/a"), {"/proc/9/ns/pid": "-> pid:[2]", "/proc/1/ns/pid": "-> pid:[1]"}},
			err:       "no kubelet runs here; want the path of its file",
		},
		"k3s as a client": {
			processes: []map[string]string{ranProcess("640", "k3s-server", "/usr/local/bin/k3s server"), ranProcess("700", "k3s", "k3s", "kubectl", "get", "pods", "--watch")},
			hard:      "imagefs.available<5% nodefs.available<5%",
		},
		"a program of that name": {
			processes: []map[string]string{ranProcess("9", "kubelet-csr-appro", "/kubelet-csr-approver", "--level=1")},
			err:       "no kubelet runs here; want the path of its file",
		},
		"two": {
			processes: []map[string]string{ranProcess("9", "kubelet", "kubelet", "--kubeconfig=/a"), ranProcess("10", "kubelet", "kubelet", "--kubeconfig=/b")},
			err:       "the kubelet in process 10 and the kubelet in process 9 both run; want the path of its file",
		},
		"two, one with another directory": {
			processes: []map[string]string{ranProcess("9", "kubelet", "kubelet", "--kubeconfig=/a", "--root-dir=/other"), ranProcess("10", "kubelet", "kubelet", "--kubeconfig=/b", "--eviction-hard=memory.available<1Gi")},
			hard:      "memory.available<1Gi",
		},
		"a wrong flag": {
			processes: []map[string]string{ranProcess("9", "kubelet", "kubelet", "--kubeconfig=/a", "--eviction-hard=memory.available<much")},
			err:       `--eviction-hard["memory.available"]: "much": quantities must match`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodefs.FS{Root: t.TempDir()}
			for _, files := range append(c.processes, c.files) {
				for path, text := range files {
					testos.MkdirAll(t, filepath.Dir(node.Root+path), 0o755)
					if to, isLink := strings.CutPrefix(text, "-> "); isLink {
						testos.Symlink(t, to, node.Root+path)
						continue
					}
					testos.WriteFile(t, node.Root+path, text, 0o600)
				}
			}
			s, err := programs.RunningKubelet(node, "/var/lib/kubelet")
			var k Kubelet
			if err == nil {
				k, err = LoadKubelet(node, s)
			}
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) || strings.Contains(c.err, "want the path") != errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var hard, soft []string
			for _, th := range k.Thresholds {
				switch {
				case th.Signal == "allocatableMemory.available":
				case th.Hard():
					hard = append(hard, string(th.Signal)+"<"+th.Value.String())
				default:
					soft = append(soft, string(th.Signal)+"<"+th.Value.String()+"/"+th.GracePeriod.String())
				}
			}
			slices.Sort(hard)
			memory := ""
			if !k.Reserved.Memory.IsZero() {
				memory = k.Reserved.Memory.String()
			}
			got := []string{strings.Join(hard, " "), strings.Join(soft, " "), memory}
			if diff := gocmp.Diff([]string{c.hard, c.soft, c.memory}, got); diff != "" {
				t.Errorf("thresholds and reserved memory of %s (-want +got):\n%s", s.Of, diff)
			}
			if c.runtime != "" && k.Config.RuntimeEndpoint != c.runtime {
				t.Errorf("runtime %s, want %s", k.Config.RuntimeEndpoint, c.runtime)
			}
		})
	}
}
