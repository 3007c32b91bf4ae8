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

// A Conn is the connection to a process through which comes what its code prints:
// go-plugin keeps the standard streams of its plugins from their code.
type Conn struct {
	*grpc.ClientConn

	following sync.WaitGroup
}

// Connect connects with a process that is ready. It returns when the connection is
// made, or could not be, which the first call tells.
func (p *Process) Connect(ctx context.Context, socket string, security credentials.TransportCredentials) (*Conn, error) {
	cc, err := Dial(socket, security)
	if err != nil {
		return nil, err
	}
	cc.Connect()
	for state := cc.GetState(); state == connectivity.Idle || state == connectivity.Connecting; state = cc.GetState() {
		if !cc.WaitForStateChange(ctx, state) {
			_ = cc.Close()
			return nil, context.Cause(ctx)
		}
	}
	c := &Conn{ClientConn: cc}
	printed := paced(p.over, p.command.Stderr)
	c.following.Go(func() { followPrinted(context.WithoutCancel(ctx), cc, printed) })
	return c, nil
}

// Close ends the connection and all calls.
func (c *Conn) Close() {
	_ = c.ClientConn.Close()
	c.following.Wait()
}

// Dial makes another connection to a plugin that is ready, at the first call.
func Dial(socket string, security credentials.TransportCredentials) (*grpc.ClientConn, error) {
	// Not by gRPC's names of unix sockets, which are URLs: the plugin chooses the path.
	return grpc.NewClient("passthrough:plugin", append(wire.DialOptions(),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}),
		grpc.WithTransportCredentials(security),
		grpc.WithAuthority("localhost"),
		grpc.WithDisableServiceConfig(),
	)...)
}

// followPrinted reads go-plugin's stream of what was printed until the connection
// ends. A plugin need not have it.
func followPrinted(ctx context.Context, cc *grpc.ClientConn, to *splitter) {
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil {
		return
	}
	// The receive returns the error of a send that fails.
	_ = s.SendMsg(&emptypb.Empty{})
	_ = s.CloseSend()
	for {
		// The message is internal to go-plugin. Empty keeps fields as they came.
		var m emptypb.Empty
		if s.RecvMsg(&m) != nil {
			to.flush()
			return
		}
		_, _ = to.Write(printed(m.ProtoReflect().GetUnknown()))
	}
}

// printed returns the data of a message, whichever of the streams it is of.
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
