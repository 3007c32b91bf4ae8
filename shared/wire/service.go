package wire

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// Register makes gr, a server made by NewGRPCServer, serve p. It is the generated service, except
// that Measure and Rank, which carry pod rows, use messages that encode and decode themselves.
func Register(gr grpc.ServiceRegistrar, p eviction.Plugin) {
	desc := pluginv1.PluginService_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "Rank" {
			desc.Methods[i].Handler = handleRank
		}
	}
	desc.Streams = slices.Clone(desc.Streams)
	for i := range desc.Streams {
		if desc.Streams[i].StreamName == "Measure" {
			desc.Streams[i].Handler = handleMeasure
		}
	}
	gr.RegisterService(&desc, &server{plugin: p})
}

func handleRank(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // the signature is gRPC's
	req := new(rankRequest)
	if err := decode(req); err != nil {
		return nil, err
	}
	handle := func(ctx context.Context, req any) (any, error) { return srv.(*server).rank(ctx, req.(*rankRequest)) }
	if interceptor == nil {
		return handle(ctx, req)
	}
	return interceptor(ctx, req, &grpc.UnaryServerInfo{Server: srv, FullMethod: pluginv1.PluginService_Rank_FullMethodName}, handle)
}

func handleMeasure(srv any, stream grpc.ServerStream) error {
	req := new(measureRequest)
	if err := stream.RecvMsg(req); err != nil {
		return err
	}
	return srv.(*server).measure(req, stream)
}
