package stack

import (
	"context"
	"fmt"
	"os"
)

// Attach returns a stack that uses the containerd and the kubelet directories of a real node. It is
// for a machine that is thrown away afterwards: nothing is recorded, and there is no Close. With
// systemd, that makes the cgroups of pods; else they are made below the root, as by a kubelet.
func Attach(ctx context.Context, systemd bool) (*Stack, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	tracked, err := tracker(all)
	if err != nil {
		return nil, err
	}
	s := &Stack{
		Dir: "/var/lib/evictd-stack", CgroupRoot: "/", ManifestDir: "/etc/evictd/manifests", Socket: "/run/containerd/containerd.sock",
		KubeletRootDir: "/var/lib/kubelet", PodLogsDir: "/var/log/pods", RuntimeRootDir: "/var/lib/containerd",
		hierarchies: all, tracked: tracked, systemd: systemd,
	}
	for _, dir := range []string{s.Dir, s.ManifestDir, s.podsDir(), s.PodLogsDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	groups := []string{toolsGroup}
	if !systemd {
		groups = append(groups, qosGroups...)
	}
	for _, group := range groups {
		if err := makeCgroup(all, "/"+group); err != nil {
			return nil, err
		}
	}
	if err := s.connect(ctx, func() error { return nil }); err != nil {
		return nil, fmt.Errorf("attach stack: %w", err)
	}
	return s, s.ImportBasics(ctx)
}
