package criclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// layoutTimeout bounds the question for the directories of images.
const layoutTimeout = 2 * time.Second

// Layout asks the runtime where images and writable layers are and compares the devices
// with that of the kubelet's directory, as the disk plugin will. It takes at most
// 2 s, if the filesystems answer.
func Layout(ctx context.Context, client runtimeapi.ImageServiceClient, root nodefs.FS, kubeletRootDir string) (eviction.Layout, error) {
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	reply, err := client.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return 0, fmt.Errorf("ask container runtime where images are: %w", err)
	}
	images := mountpoint(reply.GetImageFilesystems())
	if images == "" {
		return 0, errors.New("the container runtime names no directory of images")
	}
	containers := mountpoint(reply.GetContainerFilesystems())
	if containers == "" {
		containers = images // containerd says nothing of writable layers that are with the images
	}
	var devices [3]uint64
	for i, dir := range []string{kubeletRootDir, images, containers} {
		var stat unix.Stat_t
		if err := unix.Stat(root.Path(dir), &stat); err != nil {
			return 0, fmt.Errorf("stat %s: %w", dir, err)
		}
		devices[i] = stat.Dev
	}
	split := devices[1] != devices[2]
	report := eviction.LayoutReport{ImageFs: split || devices[0] != devices[1], ContainerFs: split}
	return report.Layout(), nil
}

func mountpoint(of []*runtimeapi.FilesystemUsage) string {
	if len(of) == 0 {
		return ""
	}
	return of[0].GetFsId().GetMountpoint()
}
