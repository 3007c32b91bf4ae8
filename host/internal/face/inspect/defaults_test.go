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
		rancher     = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard:\n  imagefs.available: 5%\n  nodefs.available: 5%\n" // as k3s and RKE2 write it
		drop        = "/var/lib/rancher/rke2/agent/etc/kubelet.conf.d"
		comm        = "/proc/812/comm"
		cmdline     = "/proc/812/cmdline"
		azure       = "/usr/local/bin/kubelet\x00--kubeconfig=/var/lib/kubelet/kubeconfig\x00--eviction-hard=memory.available<750Mi\x00"
		kubelet     = "advice the kubelet in process 812"
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
		"a kubelet with files":          {hard: all, files: map[string]string{comm: "kubelet\n", cmdline: "kubelet\x00--config-dir=" + drop, drop + "/00-defaults.conf": rancher}, want: []string{kubelet + noMemory}},
		"a kubelet with another drop-in": {hard: all, files: map[string]string{
			comm: "kubelet\n", cmdline: "kubelet\x00--config-dir=" + drop, drop + "/00-defaults.conf": rancher,
			drop + "/50-own.conf": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {memory.available: 200Mi}\n",
		}},
		"a kubelet with flags":       {hard: all, files: map[string]string{comm: "kubelet\n", cmdline: azure}, want: []string{kubelet + noDisk}},
		"another program":            {hard: all, files: map[string]string{comm: "kubelet-exporter\n", cmdline: "kubelet-exporter\x00--listen=:80"}},
		"a kubelet with a bad file":  {hard: all, files: map[string]string{comm: "kubelet\n", cmdline: "kubelet\x00--config=/k", "/k": "{{"}},
		"a kubelet that is compared": {hard: all, files: map[string]string{comm: "kubelet\n", cmdline: azure, "/kubelet.yaml": rancher}, beside: "/kubelet.yaml"},
		"both":                       {hard: map[string]string{"memory.available": "1Gi"}, files: map[string]string{comm: "kubelet\n", cmdline: azure}, want: []string{noneOfDisks, kubelet + noDisk}},
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
