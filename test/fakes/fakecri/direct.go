package fakecri

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Client returns a client that calls the runtime directly, without a socket, so
// that it works inside a testing/synctest bubble.
func (s *Server) Client() runtimeapi.RuntimeServiceClient {
	return runtimeapi.NewRuntimeServiceClient(direct{s})
}

// ImageClient is like Client for the image service.
func (s *Server) ImageClient() runtimeapi.ImageServiceClient {
	return runtimeapi.NewImageServiceClient(direct{s})
}

// direct replaces a connection.
type direct struct{ server *Server }

// Invoke implements grpc.ClientConnInterface.
func (d direct) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	service := &runtimeapi.RuntimeService_ServiceDesc
	if strings.HasPrefix(method, "/"+runtimeapi.ImageService_ServiceDesc.ServiceName+"/") {
		service = &runtimeapi.ImageService_ServiceDesc
	}
	i := slices.IndexFunc(service.Methods, func(m grpc.MethodDesc) bool {
		return "/"+service.ServiceName+"/"+m.MethodName == method
	})
	if i < 0 {
		return status.Errorf(codes.Unimplemented, "method %s is not known", method)
	}
	request, ok := args.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "request of %s is a %T", method, args)
	}
	decode := func(into any) error {
		proto.Merge(into.(proto.Message), request)
		return nil
	}
	got, err := service.Methods[i].Handler(d.server, ctx, decode, d.server.intercept)
	if err != nil {
		if errors.Is(err, ctx.Err()) {
			return status.FromContextError(err).Err()
		}
		return err
	}
	from, to := got.(proto.Message).ProtoReflect(), reply.(proto.Message).ProtoReflect()
	from.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool { to.Set(f, v); return true }) // the handler has copied it
	return nil
}

// NewStream implements grpc.ClientConnInterface.
func (d direct) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams")
}
