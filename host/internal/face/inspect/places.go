package inspect

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/parts"
	podrunning "github.com/evictd/evictd/host/internal/node/podsource/running"
	"github.com/evictd/evictd/shared/eviction"
)

// tryPodDirs checks the directories in which the disk plugin measures pods.
func tryPodDirs(ctx context.Context, n *node, f *Findings) {
	if !n.hasThreshold(onFilesystem(eviction.NodeFs)) || n.c.Source == config.SourceSummary {
		return
	}
	if err := isDir(n.kubeletDir()); err != nil {
		f.add(n.diskLevel(eviction.NodeFs), "kubeletRootDir: %q: %v, want the directory of the pods' directories: nodefs is its filesystem, and without it no disk signal is observed", n.c.KubeletRootDir, err)
		return
	}
	active, _ := n.active(ctx) // an error is another probe's
	f.lacking(ctx, n.c, active, n.active)
}

// podDirs returns the directories that a running pod must have below kubeletRootDir and podLogsDir, "" for
// none. Without a kubelet evictd cannot know whether a pod has logs.
func podDirs(c *config.Config, p pods.Pod) (dirs [2]string) {
	local := []string{"emptyDir", "configMap", "secret", "projected", "downwardAPI"}
	ofKubelet := c.Mode == config.ModeKubernetes || p.API.Annotations[podrunning.AnnotationSource] != ""
	if ofKubelet || slices.ContainsFunc(p.Row.Volumes, func(v eviction.Volume) bool { return slices.Contains(local, v.Kind) }) {
		dirs[0] = filepath.Join(parts.PodsDir(c), p.Row.UID)
	}
	if ofKubelet {
		dirs[1] = c.Node().Path(filepath.Join(c.PodLogsDir, p.Row.Namespace+"_"+p.Row.Name+"_"+p.Row.UID))
	}
	return dirs
}

// lacking reports active pods that do not have their directory. One may just have ended: only those that
// still run afterwards count.
func (f *Findings) lacking(ctx context.Context, c *config.Config, active []pods.Pod, again func(context.Context) ([]pods.Pod, error)) {
	for i, below := range []string{fmt.Sprintf("kubeletRootDir: %q", c.KubeletRootDir), fmt.Sprintf("podLogsDir: %q", c.PodLogsDir)} {
		must := slices.DeleteFunc(slices.Clone(active), func(p pods.Pod) bool { return !p.Row.Running || podDirs(c, p)[i] == "" })
		lost := slices.DeleteFunc(slices.Clone(must), func(p pods.Pod) bool { return isDir(podDirs(c, p)[i]) == nil })
		if len(lost) == 0 {
			continue
		}
		now, _ := again(ctx)
		lost = slices.DeleteFunc(lost, func(p pods.Pod) bool {
			return !slices.ContainsFunc(now, func(l pods.Pod) bool { return l.Row.UID == p.Row.UID && l.Row.Running })
		})
		level := Warning
		if len(lost) == len(must) {
			level = Error
		}
		if len(lost) > 0 {
			dir, first := podDirs(c, lost[0])[i], lost[0].Row
			f.add(level, "%s has no directory of %d of %d running pods (first: %s/%s, %s %v): what they have there counts for none; want the kubelet's own, with its disk mounted", below, len(lost), len(must), first.Namespace, first.Name, dir, isDir(dir))
		}
	}
}

// tryFilesystems compares the filesystems of pods and images with those of the first inspection, and
// finds read-only ones and logs without a signal.
func tryFilesystems(_ context.Context, n *node, f *Findings) {
	if !n.hasThreshold(onFilesystem(eviction.NodeFs, eviction.ImageFs, eviction.ContainerFs)) || n.c.Source == config.SourceSummary {
		return
	}
	_, _ = n.layout() // an error is another probe's
	said, devices := map[string]bool{}, []uint64{}
	for _, dir := range slices.Concat([]string{n.c.KubeletRootDir, filepath.Join(n.c.KubeletRootDir, "pods")}, n.imageDirs, []string{n.c.PodLogsDir}) {
		now, err := n.fs.Mount(dir)
		if err != nil {
			continue
		}
		is := now.String()
		was := cmp.Or(n.begun[dir], is)
		if n.begun[dir] = was; was != is && !said[was+is] {
			f.add(n.diskLevel(eviction.NodeFs, eviction.ImageFs, eviction.ContainerFs), "%s is on another filesystem now (was %s, is %s): disk signals and pods are measured there; want the former one, or a restart of evictd", dir, was, is)
		}
		if now.ReadOnly() && !said[is] {
			f.add(Warning, "%s is on a read-only filesystem, %s: evictions and reclaim free nothing there; want it writable", dir, is)
		}
		if dir == n.c.PodLogsDir && n.imageDirs != nil && !slices.Contains(devices, now.Device) {
			f.add(Advice, "podLogsDir: %q is on a filesystem without a signal: pods' logs count for their limits alone, and none goes when it is full; a vendor's plugin may observe it", dir)
		}
		said[was+is], said[is], devices = true, true, append(devices, now.Device)
	}
}
