// Package crisocket connects to the unix socket of a container runtime, the same
// way for the host and for plugins.
//
// Of CRI it knows by number the fields of the lists that are read, so that it costs no dependency but
// gRPC.
package crisocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// reconnectBackoff and maxReconnectBackoff pace reconnecting to a runtime that went away. It
	// is mostly back within a second, and without it no pod can be evicted.
	reconnectBackoff    = 50 * time.Millisecond
	maxReconnectBackoff = time.Second
	connectTimeout      = 2 * time.Second
	// windowBytes lets a list arrive in one go. With gRPC's 64 KiB the lists of a hundred pods
	// pause halfway for a window update, which delays an eviction.
	windowBytes = 4 << 20

	examples = "containerd's is unix:///run/containerd/containerd.sock, CRI-O's unix:///run/crio/crio.sock"
)

// Endpoint returns an endpoint as unix:// and a path, if it is one of the spellings of a socket that a kubelet takes: a path,
// unix:/path, unix://localhost/path (cri-client: util.parseEndpoint). Others come back as they are.
func Endpoint(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" && u.Scheme != "unix" || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
		return text
	}
	return "unix://" + filepath.Clean(u.Path)
}

// Path returns the path of a socket in any spelling of Endpoint.
func Path(endpoint string) string { return strings.TrimPrefix(Endpoint(endpoint), "unix://") }

// Dial returns a connection to the container runtime at endpoint, of which links below the root of node are followed as on the
// node. The first call connects, and it reconnects whenever the runtime comes back. While there is no runtime, calls fail at once
// and say so. Replies larger than maxReplyBytes are refused. Of the labels and annotations in
// lists only Kubernetes' own are decoded. An error means that the endpoint can never work.
func Dial(node nodefs.FS, endpoint string, maxReplyBytes int) (*grpc.ClientConn, error) {
	path, err := socketPath(endpoint)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient("passthrough:///"+path,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) { return dialSocket(ctx, node.Own(path)) }),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnectBackoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnectBackoff},
			MinConnectTimeout: connectTimeout,
		}),
		// An idle connection would be closed, and the first kill would have to reconnect.
		grpc.WithIdleTimeout(0),
		grpc.WithInitialWindowSize(windowBytes),
		grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReplyBytes), grpc.ForceCodecV2(codec)),
		grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := call(ctx, method, req, reply, conn, opts...)
			if s, ok := status.FromError(err); ok && err != nil {
				return callError{s}
			}
			return err
		}),
	)
}

// A callError is an error of a call without gRPC's decoration.
type callError struct{ status *status.Status }

// GRPCStatus lets package status find the status.
func (e callError) GRPCStatus() *status.Status { return e.status }

// Error returns why there is no connection, or the runtime's message with its code.
func (e callError) Error() string {
	if _, why, ok := strings.Cut(e.status.Message(), "Error while dialing: "); ok {
		return strings.TrimSuffix(why, `"`)
	}
	if e.status.Code() == codes.DeadlineExceeded { // the message depends on who ends the call
		return "no answer in time"
	}
	return fmt.Sprintf("%s (%s)", e.status.Message(), e.status.Code())
}

func socketPath(endpoint string) (string, error) {
	path, isUnix := strings.CutPrefix(Endpoint(endpoint), "unix://")
	switch {
	case !isUnix:
		return "", fmt.Errorf("container runtime endpoint %q is not a unix socket, want unix:// and an absolute path; %s", endpoint, examples)
	case !filepath.IsAbs(path):
		return "", fmt.Errorf("container runtime endpoint %q has no absolute path, want three slashes: unix:///path; %s", endpoint, examples)
	}
	return path, nil
}

// dialSocket returns errors that say what to do: every call that fails without a connection
// shows them.
func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("container runtime socket unix://%s does not exist: is the runtime running and the endpoint right? %s", path, examples)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("nothing listens on container runtime socket unix://%s: is the runtime running?", path)
	default:
		return nil, fmt.Errorf("container runtime socket unix://%s: %w", path, err)
	}
}
