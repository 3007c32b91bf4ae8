package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Many nodes would send the same request at the same time. spreadOver bounds the random wait before one
// that follows a rejection. A watch that ended early is resumed within resumeOver: a proxy may have
// ended it, and changes are not seen meanwhile. One that ended within rejectedWithin of its beginning
// was rejected, as with a resource version that is too old.
const spreadOver, resumeOver, rejectedWithin = 10 * time.Second, 3 * time.Second, time.Second

var errInterrupted = errors.New("the watch was interrupted, it is resumed within seconds")

// Spread returns the requests of a reflector with a random wait before those that follow a rejection,
// or a watch that ended early, as all do with their API server. A watch that is rejected is resumed
// where it was, without another list, except after a "too old" or "too large resource version". result
// receives each result, and an error before a wait.
func Spread(requests cache.ListWatch, result func(error)) *cache.ListWatch {
	var former error           // of the last request
	var begun, until time.Time // of the last watch; it ends by itself then
	begin := func(ctx context.Context) error {
		early, over := time.Now().Before(until), spreadOver
		if until = (time.Time{}); !early && !rejected(former) {
			return nil
		}
		if early {
			result(errInterrupted)
		}
		if early && time.Since(begun) > rejectedWithin {
			over = resumeOver
		}
		select {
		case <-time.After(rand.N(over)):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (list runtime.Object, err error) {
			if err = begin(ctx); err == nil {
				list, err = requests.ListWithContext(ctx, options)
				result(err)
			}
			former = err
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (w watch.Interface, err error) {
			if err = begin(ctx); err == nil {
				w, err = requests.WatchWithContext(ctx, options)
				result(err)
			}
			if former = err; err == nil && options.TimeoutSeconds != nil {
				begun = time.Now()
				until = begun.Add(time.Duration(*options.TimeoutSeconds)*time.Second - time.Second)
			}
			if err != nil && options.SendInitialEvents == nil && !wantsList(err) {
				err = apierrors.NewTooManyRequests(fmt.Sprintf("resume the watch later: %v", err), 0) // a reflector lists again after others
			}
			return w, err
		},
	}
}

// wantsList reports whether the API server has not, or not yet, what a watch is to be resumed with.
func wantsList(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// rejected reports whether an API server does not serve yet, has too much to do, or wants a list.
func rejected(err error) bool {
	return wantsList(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err)
}
