// Package cri is the disk plugin's connection to the container runtime: the two
// services of CRI on one or two sockets.
//
// It is only the connection. The callers decide about the calls and their deadlines.
package cri

import (
	"cmp"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/crisocket"
	"github.com/evictd/evictd/shared/nodefs"
)

// maxReplyBytes is the maximum size of a reply, as in the kubelet.
const maxReplyBytes = 16 << 20

// Client calls the container runtime. It is safe for concurrent use. The first call connects,
// and later ones reconnect after the runtime was away; while it is away calls fail at once. The
// client adds no deadlines.
type Client struct {
	Runtime runtimeapi.RuntimeServiceClient
	Images  runtimeapi.ImageServiceClient

	conns []*grpc.ClientConn
}

// Dial returns a client of the runtime at two endpoints. An empty image endpoint means the runtime endpoint; equal endpoints
// share a connection. An error means that an endpoint can never work.
func Dial(node nodefs.FS, runtimeEndpoint, imageEndpoint string) (*Client, error) {
	runtimeEndpoint, imageEndpoint = crisocket.Endpoint(runtimeEndpoint), crisocket.Endpoint(cmp.Or(imageEndpoint, runtimeEndpoint))
	runtime, err := crisocket.Dial(node, runtimeEndpoint, maxReplyBytes)
	if err != nil {
		return nil, fmt.Errorf("runtime endpoint: %w", err)
	}
	c := &Client{conns: []*grpc.ClientConn{runtime}}
	images := runtime
	if imageEndpoint != runtimeEndpoint {
		images, err = crisocket.Dial(node, imageEndpoint, maxReplyBytes)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("image endpoint: %w", err), c.Close())
		}
		c.conns = append(c.conns, images)
	}
	c.Runtime, c.Images = runtimeapi.NewRuntimeServiceClient(runtime), runtimeapi.NewImageServiceClient(images)
	return c, nil
}

// Close ends the connections. Calls in progress fail.
func (c *Client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
