package filesystem

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/answers"
)

var _ ImageFilesystems = runtimeapi.ImageServiceClient(nil)

// imagesFunc is a runtime.
type imagesFunc func(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)

func (f imagesFunc) ImageFsInfo(ctx context.Context, _ *runtimeapi.ImageFsInfoRequest, _ ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error) {
	return f(ctx)
}

func at(mountpoint string) []*runtimeapi.FilesystemUsage {
	return []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: mountpoint}}}
}

func TestDirectoriesOf(t *testing.T) {
	for name, c := range map[string]struct {
		in   *runtimeapi.ImageFsInfoResponse
		want directories
	}{
		"only images, as containerd says it": {&runtimeapi.ImageFsInfoResponse{ImageFilesystems: at("/a")}, directories{images: "/a", containers: "/a"}},
		"both":                               {&runtimeapi.ImageFsInfoResponse{ImageFilesystems: at("/a"), ContainerFilesystems: at("/b")}, directories{images: "/a", containers: "/b"}},
		"the first of several":               {&runtimeapi.ImageFsInfoResponse{ImageFilesystems: append(at("/a"), at("/b")...)}, directories{images: "/a", containers: "/a"}},
		"writable layers without a name":     {&runtimeapi.ImageFsInfoResponse{ImageFilesystems: at("/a"), ContainerFilesystems: []*runtimeapi.FilesystemUsage{{}}}, directories{images: "/a", containers: "/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := directoriesOf(c.in); got != c.want || err != nil {
				t.Errorf("%+v, %v, want %+v", got, err, c.want)
			}
		})
	}
	for name, in := range map[string]*runtimeapi.ImageFsInfoResponse{
		"nothing":        nil,
		"no images":      {ContainerFilesystems: at("/b")},
		"no directory":   {ImageFilesystems: []*runtimeapi.FilesystemUsage{{}}},
		"an empty entry": {ImageFilesystems: []*runtimeapi.FilesystemUsage{nil}},
	} {
		if got, err := directoriesOf(in); err == nil {
			t.Errorf("%s: %+v, want an error", name, got)
		}
	}
}

// changing is a runtime whose answer a test changes.
type changing struct {
	calls  atomic.Int64
	answer atomic.Pointer[imagesFunc]
}

func (c *changing) set(f imagesFunc) { c.answer.Store(&f) }

func (c *changing) ImageFsInfo(ctx context.Context, _ *runtimeapi.ImageFsInfoRequest, _ ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error) {
	c.calls.Add(1)
	return (*c.answer.Load())(ctx)
}

func says(mountpoint string) imagesFunc {
	return func(context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
		return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: at(mountpoint)}, nil
	}
}

func fails(why string) imagesFunc {
	return func(context.Context) (*runtimeapi.ImageFsInfoResponse, error) { return nil, errors.New(why) }
}

func hangs(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// step asks for the directories as a pass does, and says how long it took.
func (c *changing) step(t *testing.T, r runtime) (directories, time.Duration, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	start := time.Now()
	named, err := r.directories(ctx)
	return named, time.Since(start), err
}

func TestTheRuntimeIsAskedUntilItAnswersAndThenNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(changing)
		r := newRuntime(c)
		defer r.input.Close()
		want := func(when string, images, errText string, calls int64) {
			t.Helper()
			got, took, err := c.step(t, r)
			if got.images != images || (err == nil) != (errText == "") || err != nil && !strings.Contains(err.Error(), errText) {
				t.Errorf("%s: %+v, %v, want %q, %q", when, got, err, images, errText)
			}
			if n := c.calls.Load(); n != calls {
				t.Errorf("%s: %d calls, want %d", when, n, calls)
			}
			if took > refreshWait && errText == "" {
				t.Errorf("%s: a pass that knows the answer took %v", when, took)
			}
		}
		c.set(fails("connection refused"))
		want("down at the start", "", "connection refused", 1)
		want("down yet", "", "connection refused", 2)
		c.set(says("/a"))
		want("up", "/a", "", 3)
		want("at once", "/a", "", 3)
		<-time.After(askInterval)
		c.set(fails("restarting"))
		want("the full pass while it restarts", "/a", "", 4)
		<-time.After(time.Second)
		c.set(says("/b"))
		want("soon after", "/b", "", 5)
		<-time.After(askInterval / 2)
		want("before the next full pass", "/b", "", 5)
	})
}

func TestARuntimeThatHangsHoldsUpNoPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(changing)
		r := newRuntime(c)
		c.set(hangs)
		for range 3 {
			if _, took, err := c.step(t, r); err == nil || !strings.Contains(err.Error(), "no answer in time") || took != 500*time.Millisecond {
				t.Errorf("%v after %v, want that it has not answered after the pass's time", err, took)
			}
		}
		if n := c.calls.Load(); n != 1 {
			t.Errorf("%d calls at once, want one", n)
		}
		<-time.After(askTimeout)
		if _, _, err := c.step(t, r); err == nil || !strings.Contains(err.Error(), "no answer in time") || c.calls.Load() != 2 {
			t.Errorf("%v after %d calls, want a second one", err, c.calls.Load())
		}
		r.input.Close() // ends the second call
		if _, _, err := c.step(t, r); !errors.Is(err, answers.ErrClosed) {
			t.Errorf("error after close is %v", err)
		}
	})
}

func TestARuntimeThatHangsLaterLeavesWhatIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(changing)
		r := newRuntime(c)
		defer r.input.Close()
		c.set(says("/a"))
		_, _, _ = c.step(t, r)
		c.set(hangs)
		<-time.After(askInterval)
		for range 2 {
			if got, took, err := c.step(t, r); got.images != "/a" || err != nil || took != refreshWait {
				t.Errorf("%+v, %v after %v, want the known directory after %v", got, err, took, refreshWait)
			}
		}
	})
}
