package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/node/criclient"
)

const (
	// mostFiles bounds the files that are looked at below the directories of no pod, mostOrphans the
	// directories that are named.
	mostFiles, mostOrphans = 100_000, 3
	// orphanShare is the part of the filesystem from which on a directory of no pod is named.
	orphanShare = 100
)

// orphans finds what pods have left below the kubelet's directory: evictions do not free it.
func orphans(ctx context.Context, c *config.Config, runtime runtimeapi.RuntimeServiceClient) (f Findings) {
	dir := parts.PodsDir(c)
	entries, err := input.ReadDir(dir, mostFiles)
	room, errRoom := c.Node().Statfs(c.KubeletRootDir)
	var root unix.Stat_t
	if cmp.Or(err, errRoom, unix.Lstat(dir, &root)) != nil { // another probe reports that
		return nil
	}
	listed, err := criclient.NewLister(runtime, nil).Pods(ctx) // after the directories
	if err != nil || listed.Stale != nil {                     // likewise
		return nil
	}
	left, held := mostFiles, map[string]int64{}
	for _, e := range entries {
		of := func(p *criclient.Pod) bool { return p.UID == e.Name() }
		if !e.IsDir() || slices.ContainsFunc(listed.Pods, of) {
			continue
		}
		if bytes := below(ctx, filepath.Join(dir, e.Name()), root.Dev, &left); bytes >= room.CapacityBytes/orphanShare {
			held[e.Name()] = bytes
		}
	}
	if len(held) == 0 {
		return nil
	}
	var named []string
	for _, uid := range slices.SortedFunc(maps.Keys(held), func(a, b string) int { return cmp.Compare(held[b], held[a]) }) {
		named = append(named, fmt.Sprintf("pods/%s %d MiB", uid, held[uid]>>20))
	}
	f.add(Warning, "kubeletRootDir: %q: %d directories belong to no pod, and no eviction frees them (the largest: %s); want them removed when nothing uses them", c.KubeletRootDir, len(named), strings.Join(named[:min(len(named), mostOrphans)], ", "))
	return f
}

// below returns the space that dir and all below it have on a device, as far as left lets it look.
func below(ctx context.Context, dir string, device uint64, left *int) (bytes int64) {
	entries, err := input.ReadDir(dir, *left)
	if err != nil || ctx.Err() != nil {
		return 0
	}
	*left -= len(entries)
	for _, e := range entries {
		var stat unix.Stat_t
		path := filepath.Join(dir, e.Name())
		if unix.Lstat(path, &stat) != nil || stat.Dev != device {
			continue
		}
		bytes += stat.Blocks * 512 / int64(max(stat.Nlink, 1))
		if e.IsDir() {
			bytes += below(ctx, path, device, left)
		}
	}
	return bytes
}
