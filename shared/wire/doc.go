// Package wire carries the plugin contract of shared/eviction over gRPC: it
// converts in both directions, maps errors and plugs into go-plugin.
//
// Both sides use it, so that neither sees generated code: the SDK serves an eviction.Plugin with
// it, the host gets one whose fields are calls. It has no policy: deadlines come with the caller's
// context, and the host decides whether an answer makes sense for the node. The protocol is
// specified in shared/proto/evictd/plugin/v1/plugin.proto.
package wire
