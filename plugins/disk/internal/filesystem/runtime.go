package filesystem

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/hang"
)

const (
	// askInterval is the time between two requests for the runtime's directories, made by a full
	// pass; passes in between use the last answer. It is short enough to notice a runtime that
	// was restarted with another configuration.
	askInterval = 10 * time.Second
	// retryInterval replaces askInterval after a failed request.
	retryInterval = time.Second
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
}

// runtime finds the runtime's directories. It makes one call at a time, which may outlive the
// pass that began it.
type runtime struct {
	images ImageFilesystems
	calls  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	asked    time.Time     // start of the last call
	answered chan struct{} // closed when the call in progress has ended, nil if there is none
	cancel   context.CancelFunc
	known    directories // the last good answer
	err      error       // why there is none, or no newer one
}

// directories returns the runtime's last answer, after asking again if it is time. The error
// says why there has never been one.
func (r *runtime) directories(ctx context.Context) (directories, error) {
	answered, most, err := r.ask(ctx)
	if err != nil {
		return directories{}, err
	}
	if answered != nil {
		wait, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		select {
		case <-answered:
		case <-wait.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.known != directories{}:
		return r.known, nil
	case r.err != nil:
		return directories{}, r.err
	default:
		return directories{}, errors.New("the runtime has not answered yet")
	}
}

// ask begins a call if one is due. It returns the channel to wait for and the longest wait.
func (r *runtime) ask(ctx context.Context) (answered <-chan struct{}, most time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, 0, errClosed
	}
	known := r.known != directories{}
	interval := askInterval
	if r.err != nil {
		interval = retryInterval
	}
	if r.answered == nil && (!known || time.Since(r.asked) >= interval) {
		r.begin(ctx)
	}
	if known {
		return r.answered, refreshWait, nil
	}
	return r.answered, askTimeout, nil
}

// begin begins a call. The caller holds mu.
func (r *runtime) begin(ctx context.Context) {
	ctx, r.cancel = context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	r.asked = time.Now()
	r.answered = make(chan struct{})
	r.calls.Go(func() {
		named, err := hang.Try(func() (directories, error) {
			reply, err := r.images.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
			if err != nil {
				return directories{}, err
			}
			return directoriesOf(reply)
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		r.cancel()
		close(r.answered)
		r.answered = nil
		if r.err = err; err == nil {
			r.known = named
		}
	})
}

func (r *runtime) close() {
	r.mu.Lock()
	r.closed = true
	if r.cancel != nil {
		r.cancel()
	}
	r.mu.Unlock()
	r.calls.Wait()
}

// directoriesOf takes the first filesystem of each kind, like the kubelet. A runtime that does not
// report writable layers (containerd 1.6 and 2) keeps them with the images.
func directoriesOf(reply *runtimeapi.ImageFsInfoResponse) (directories, error) {
	images := firstMountpoint(reply.GetImageFilesystems())
	if images == "" {
		return directories{}, fmt.Errorf("%w among %d filesystems", errNoImages, len(reply.GetImageFilesystems()))
	}
	containers := firstMountpoint(reply.GetContainerFilesystems())
	if containers == "" {
		containers = images
	}
	return directories{images: images, containers: containers}, nil
}

var errNoImages = errors.New("the runtime names no directory of images")

func firstMountpoint(filesystems []*runtimeapi.FilesystemUsage) string {
	if len(filesystems) == 0 {
		return ""
	}
	return filesystems[0].GetFsId().GetMountpoint()
}
