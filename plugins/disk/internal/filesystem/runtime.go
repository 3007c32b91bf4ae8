package filesystem

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/answers"
)

const (
	// askInterval is the time between two requests for the runtime's directories, made by a full
	// pass; passes in between use the last answer. It is short enough to notice a runtime that
	// was restarted with another configuration.
	askInterval = 10 * time.Second
	// askTimeout ends a call that hangs; no pass waits that long.
	askTimeout = 10 * time.Second
	// refreshWait limits the wait of a pass for an answer that most likely repeats the last one. A
	// runtime takes a millisecond.
	refreshWait = 50 * time.Millisecond
)

// ImageFilesystems is the part of the runtime's image service that is needed here;
// runtimeapi.ImageServiceClient implements it.
type ImageFilesystems interface {
	// ImageFsInfo names the directories of images and of writable layers.
	ImageFsInfo(ctx context.Context, in *runtimeapi.ImageFsInfoRequest, opts ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error)
}

// directories are those in which the runtime keeps images and writable layers, as paths of the
// node.
type directories struct {
	images     string
	containers string
	// imageBytes and imageInodes are used by images, as the runtime reports it: containerd includes
	// writable layers.
	imageBytes, imageInodes uint64
}

// runtime finds the runtime's directories.
type runtime struct{ input *answers.Input[directories] }

func newRuntime(images ImageFilesystems) runtime {
	return runtime{answers.New("image filesystem", askTimeout, func(ctx context.Context) (directories, error) {
		reply, err := images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
		if err != nil {
			return directories{}, err
		}
		return directoriesOf(reply)
	})}
}

// directories returns the runtime's last answer, after asking again if it is time. The error
// says why there has never been one.
func (r runtime) directories(ctx context.Context) (directories, error) {
	most := askTimeout
	if r.input.Last().Known() {
		most = refreshWait
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	answer := r.input.Get(ctx, time.Now().Add(-askInterval))
	if answer.Known() {
		return answer.Value, nil
	}
	return directories{}, answer.Err
}

// directoriesOf takes the first filesystem of each kind, like the kubelet. A runtime that does not
// report writable layers (containerd 1.6 and 2) keeps them with the images.
func directoriesOf(reply *runtimeapi.ImageFsInfoResponse) (directories, error) {
	images := firstMountpoint(reply.GetImageFilesystems())
	if images == "" {
		return directories{}, fmt.Errorf("%w among %d filesystems", errNoImages, len(reply.GetImageFilesystems()))
	}
	containers := cmp.Or(firstMountpoint(reply.GetContainerFilesystems()), images)
	first := reply.GetImageFilesystems()[0]
	return directories{images, containers, first.GetUsedBytes().GetValue(), first.GetInodesUsed().GetValue()}, nil
}

var errNoImages = errors.New("the runtime names no directory of images")

func firstMountpoint(filesystems []*runtimeapi.FilesystemUsage) string {
	if len(filesystems) == 0 {
		return ""
	}
	return filesystems[0].GetFsId().GetMountpoint()
}
