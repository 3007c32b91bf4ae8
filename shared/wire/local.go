package wire

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// Local serves a plugin in this process over in-memory connections. The plugin shares no memory
// with its callers, and a call ends with its context, but a method that hangs cannot be stopped.
type Local struct {
	server   *grpc.Server
	listener *bufconn.Listener
	serving  sync.WaitGroup
}

// ServeLocal serves with s until Close.
func ServeLocal(s *grpc.Server) *Local {
	const unread = 64 << 10
	l := &Local{server: s, listener: bufconn.Listen(unread)}
	l.serving.Go(func() { _ = l.server.Serve(l.listener) }) // ends with Close
	return l
}

// Dial returns a connection to the plugin, which is established by the first call.
func (l *Local) Dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:plugin", append(DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableServiceConfig(),
	)...)
}

// Close ends all connections and waits until the server has stopped.
func (l *Local) Close() {
	l.server.Stop()
	l.serving.Wait()
}
