package inspect

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/testos"
)

// Nodes took no notice of memory that ran short, or of a disk that was full, since their distribution gives the
// kubelet thresholds of its own, and so none of the defaults.
func TestCheckNamesTheDefaultsThatLack(t *testing.T) {
	const (
		// As k3s 1.32 and RKE2 write it, and the flags of AKS for nodes of Karpenter.
		rancher = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard:\n  imagefs.available: 5%\n  nodefs.available: 5%\nevictionMinimumReclaim:\n  imagefs.available: 10%\n  nodefs.available: 10%\n"
		azure   = "KUBELET_FLAGS=--cgroup-driver=systemd --eviction-hard=memory.available<750Mi --event-qps=0\n"

		k3s, rke2   = "/var/lib/rancher/k3s/agent", "/var/lib/rancher/rke2/agent"
		drop        = "/etc/kubelet.conf.d/00-defaults.conf"
		kubelet     = "advice the kubelet of "
		noMemory    = " has no threshold of memory.available: without evictd no pod of this node is evicted when they run short; want for it evictionHard: {memory.available: 100Mi}"
		noDisk      = " has no threshold of nodefs.available, nodefs.inodesFree: without evictd no pod of this node is evicted when they run short; want for it evictionHard: {nodefs.available: 10%, nodefs.inodesFree: 5%}"
		noneOfDisks = "advice no threshold of nodefs.available, nodefs.inodesFree is in force: no pod of this node is evicted when they run short; want evictionHard: {nodefs.available: 10%, nodefs.inodesFree: 5%}, or 0% if that is meant"
		noneOfImage = "advice no threshold of imagefs.available, imagefs.inodesFree is in force: no pod of this node is evicted when they run short; want evictionHard: {imagefs.available: 15%, imagefs.inodesFree: 5%}, or 0% if that is meant"
	)
	all := map[string]string{"memory.available": "1Gi", "nodefs.available": "10%"}
	for name, c := range map[string]struct {
		hard, soft map[string]string
		files      map[string]string
		beside     string
		images     string // the filesystem of images
		want       []string
	}{
		"all":                           {hard: all},
		"no disk":                       {hard: map[string]string{"memory.available": "1Gi"}, want: []string{noneOfDisks}},
		"no disk, on purpose":           {hard: map[string]string{"memory.available": "1Gi", "nodefs.available": "0%"}},
		"the disk's inodes alone":       {hard: map[string]string{"memory.available": "1Gi", "nodefs.inodesFree": "5%"}},
		"a soft one of the disk":        {hard: map[string]string{"memory.available": "1Gi"}, soft: map[string]string{"nodefs.available": "10%"}},
		"pids are no disk":              {hard: map[string]string{"memory.available": "1Gi", "pid.available": "5%"}, want: []string{noneOfDisks}},
		"no images on a disk of theirs": {hard: all, images: "/proc", want: []string{noneOfImage}},
		"k3s":                           {hard: all, files: map[string]string{k3s + drop: rancher}, want: []string{kubelet + "k3s (" + k3s + "/etc/kubelet.conf.d)" + noMemory}},
		"k3s with flags in its program": {hard: all, files: map[string]string{k3s + "/x": ""}, want: []string{kubelet + "k3s (" + k3s + ")" + noMemory}},
		"k3s with an argument": {hard: all, files: map[string]string{
			k3s + drop: rancher, "/etc/rancher/k3s/config.yaml": "kubelet-arg:\n- \"eviction-hard=memory.available<200Mi,nodefs.available<5%\"\n",
		}},
		"k3s with another drop-in": {hard: all, files: map[string]string{k3s + drop: rancher, k3s + "/etc/kubelet.conf.d/50-own.conf": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 200Mi}\n"}},
		"RKE2":                     {hard: all, files: map[string]string{rke2 + drop: rancher}, want: []string{kubelet + "RKE2 (" + rke2 + "/etc/kubelet.conf.d)" + noMemory}},
		"Karpenter on Azure":       {hard: all, files: map[string]string{"/etc/default/kubelet": azure}, want: []string{kubelet + "AKS (/etc/default/kubelet)" + noDisk}},
		"AKS with a file": {
			hard: all, files: map[string]string{"/etc/default/kubeletconfig.json": `{"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "evictionHard": {"memory.available": "750Mi"}}`},
			want: []string{kubelet + "AKS (/etc/default/kubeletconfig.json)" + noDisk},
		},
		"another user of the file":   {hard: all, files: map[string]string{"/etc/default/kubelet": "KUBELET_EXTRA_ARGS=--node-ip=10.0.0.1\n"}},
		"a file that is none":        {hard: all, files: map[string]string{"/etc/default/kubeletconfig.json": "{{"}},
		"a kubelet that is compared": {hard: all, files: map[string]string{k3s + drop: rancher, "/kubelet.yaml": rancher}, beside: "/kubelet.yaml"},
		"both":                       {hard: map[string]string{"memory.available": "1Gi"}, files: map[string]string{"/etc/default/kubelet": azure}, want: []string{noneOfDisks, kubelet + "AKS (/etc/default/kubelet)" + noDisk}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, s := places(t)
			cfg.EvictionHard, cfg.EvictionSoft = c.hard, c.soft
			if c.images != "" {
				s.SetImageDir(c.images)
				cfg.RootDir, cfg.KubeletRootDir = "/", cfg.RootDir
			}
			for path, text := range c.files {
				testos.MkdirAll(t, filepath.Dir(cfg.RootDir+path), 0o755)
				testos.WriteFile(t, cfg.RootDir+path, text, 0o600)
			}
			if c.beside != "" {
				cfg.BesideKubelet = cfg.RootDir + c.beside
			}
			if diff := cmp.Diff(c.want, found(t, cfg, map[string]string{}, "default thresholds")); diff != "" {
				t.Errorf("advice (-want +got):\n%s", diff)
			}
		})
	}
}
