package launch

import (
	"context"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/evictd/evictd/shared/wire"
)

// A Conn is the connection to a process. It also carries what the plugin's code prints, which
// go-plugin keeps off the standard streams.
type Conn struct {
	*grpc.ClientConn

	following sync.WaitGroup
}

// Connect connects to a process that is ready. It returns when the attempt has succeeded or
// failed; in the latter case the first call returns the error.
func (p *Process) Connect(ctx context.Context, socket string, security credentials.TransportCredentials) (*Conn, error) {
	cc, err := Dial(socket, security)
	if err != nil {
		return nil, err
	}
	if err := established(ctx, cc); err != nil {
		_ = cc.Close()
		return nil, err
	}
	c := &Conn{ClientConn: cc}
	printed := paced(p.over, p.command.Stderr)
	c.following.Go(func() { followPrinted(context.WithoutCancel(ctx), cc, printed) })
	return c, nil
}

// established returns when the first attempt to connect has succeeded or failed.
func established(ctx context.Context, cc *grpc.ClientConn) error {
	cc.Connect()
	for state := cc.GetState(); state == connectivity.Idle || state == connectivity.Connecting; state = cc.GetState() {
		if !cc.WaitForStateChange(ctx, state) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// Close ends the connection and all calls.
func (c *Conn) Close() {
	_ = c.ClientConn.Close()
	c.following.Wait()
}

// Dial returns another connection to a plugin that is ready, made at the first call.
func Dial(socket string, security credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return dial(security, func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", socket) })
}

func dial(security credentials.TransportCredentials, open func(context.Context) (net.Conn, error), more ...grpc.DialOption) (*grpc.ClientConn, error) {
	// Not gRPC's unix: scheme, which parses URLs: the plugin chooses the path.
	return grpc.NewClient("passthrough:plugin", append(append(wire.DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return open(ctx) }),
		grpc.WithTransportCredentials(security),
		grpc.WithAuthority("localhost"),
		grpc.WithDisableServiceConfig(),
	), more...)...)
}

// followPrinted reads go-plugin's stream of printed output until the connection ends. A
// plugin need not serve it.
func followPrinted(ctx context.Context, cc *grpc.ClientConn, to *splitter) {
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil {
		return
	}
	// If the send fails, the receive below returns its error.
	_ = s.SendMsg(&emptypb.Empty{})
	_ = s.CloseSend()
	for {
		// The message type is internal to go-plugin. Empty keeps its fields as unknown ones.
		var m emptypb.Empty
		if s.RecvMsg(&m) != nil {
			to.flush()
			return
		}
		_, _ = to.Write(printed(m.ProtoReflect().GetUnknown()))
	}
}

// printed returns the data of a message, from either of the two streams.
func printed(message []byte) (data []byte) {
	const dataField = 2
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeField(message)
		if n < 0 {
			return data
		}
		if num == dataField && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(message)
			data, _ = protowire.ConsumeBytes(message[tag:])
		}
		message = message[n:]
	}
	return data
}
