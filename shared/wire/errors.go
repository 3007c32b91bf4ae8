package wire

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/eviction"
)

// maxErrorBytes limits the text of an error: it travels in an HTTP/2 header.
const maxErrorBytes = 4 << 10

// refusal turns an error of plugin code into the status that means "the plugin refused",
// whatever the error is: a gRPC status or context error from some inner call of the
// plugin must not look like a failure of this call. Only if this call's context has ended
// does refusal return the context's error.
func refusal(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.FailedPrecondition, clip(text(err.Error())))
}

// CallError turns the error of a call into the context's error or one that wraps an error
// of package eviction. It returns nil for nil.
func CallError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	kind := eviction.ErrRefused
	switch st.Code() {
	case codes.OK:
		return nil
	case codes.Canceled, codes.DeadlineExceeded:
		if gone := gaveUp(ctx); gone != nil {
			return gone
		}
		if st.Code() == codes.Canceled { // not by this side: the connection was closed under the call
			kind = eviction.ErrUnavailable
		}
	case codes.Unimplemented:
		kind = eviction.ErrUnsupported
	case codes.Unavailable:
		kind = eviction.ErrUnavailable
	case codes.ResourceExhausted, codes.Internal, codes.DataLoss:
		kind = eviction.ErrInvalidReply
	default: // the plugin refused
	}
	return fmt.Errorf("%w: %s", kind, clip(text(st.Message())))
}

// gaveUp returns the context's error, even if its deadline has passed but its timer has
// not fired yet.
func gaveUp(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// text makes s valid UTF-8. Protobuf refuses a whole message because of one bad byte,
// and an odd annotation of a pod must not fail the call.
func text(s string) string {
	if valid(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// clip truncates a valid s to maxErrorBytes.
func clip(s string) string { return cut(s, maxErrorBytes) }

// cut truncates a valid s to most bytes at a character boundary.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const end = "..."
	return strings.ToValidUTF8(s[:most-len(end)], "") + end
}
