// Package wire carries the plugin contract of shared/eviction over gRPC: it
// converts both ways, maps errors and plugs into go-plugin.
//
// Both ends use it, so that neither sees generated code: the SDK serves an
// eviction.Plugin with it, the host gets one whose fields are calls. It holds no
// policy: deadlines come with the caller's context, and whether an answer makes
// sense for the node is the host's question. The protocol itself is specified
// in shared/proto/evictd/plugin/v1/plugin.proto.
package wire
