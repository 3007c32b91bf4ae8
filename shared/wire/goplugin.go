package wire

import (
	"context"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// ProtocolMajor is the version of the protocol that this package speaks.
	ProtocolMajor = 1
	// PluginName is the only name in the plugin sets of go-plugin.
	PluginName = "eviction"
	// MaxMessageBytes limits a message in either direction, on both sides.
	MaxMessageBytes = 8 << 20
	// MaxWakeBytes limits a wake message; there may be hundreds a second.
	MaxWakeBytes = 8 << 10

	// maxHeaderBytes limits the headers of a response.
	maxHeaderBytes = 64 << 10
	// window bounds the bytes in flight to a plugin.
	window = 1 << 20
)

// Handshake lets a plugin notice that it was started by hand and not by the host. It is
// not a protection.
var Handshake = plugin.HandshakeConfig{
	MagicCookieKey:   "EVICTD_PLUGIN_COOKIE",
	MagicCookieValue: "d3a9c1e6-node-pressure-eviction",
}

// ServerPlugins returns the plugin sets with which go-plugin serves p, on a server made by
// NewGRPCServer.
func ServerPlugins(p eviction.Plugin) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{ProtocolMajor: {PluginName: &glue{plugin: p}}}
}

// NewGRPCServer makes the server that ServerPlugins requires, with the protocol's limits
// and codec. It can be plugin.ServeConfig.GRPCServer.
func NewGRPCServer(opts []grpc.ServerOption) *grpc.Server {
	return grpc.NewServer(append(opts,
		grpc.MaxRecvMsgSize(MaxMessageBytes), // 4 MiB by default
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.ForceServerCodecV2(newCodec()),
		// A ranking of 500 pods exceeds the default window of 64 KiB: sending would
		// pause halfway for a window update.
		grpc.InitialWindowSize(window),
		grpc.InitialConnWindowSize(window),
		grpc.WriteBufferSize(buffer),
		grpc.ReadBufferSize(buffer),
	)...)
}

// DialOptions returns the same limits for the host's side.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithMaxHeaderListSize(maxHeaderBytes), // where the text of an error travels
		grpc.WithInitialWindowSize(window),
		grpc.WithInitialConnWindowSize(window),
		grpc.WithWriteBufferSize(buffer),
		grpc.WithReadBufferSize(buffer),
	}
}

// buffer is the size of a read or write in bytes: the figures of 500 pods take few system calls.
// Each connection holds such buffers while it exists.
const buffer = 128 << 10

// glue implements go-plugin's interface for one plugin.
type glue struct {
	plugin.NetRPCUnsupportedPlugin

	plugin eviction.Plugin
}

// GRPCServer implements plugin.GRPCPlugin.
func (g *glue) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	Register(s, g.plugin)
	return nil
}

// GRPCClient implements plugin.GRPCPlugin. It returns a *Client, for a host that starts
// plugins with go-plugin.
func (g *glue) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, cc *grpc.ClientConn) (any, error) {
	return NewClient(cc), nil
}
