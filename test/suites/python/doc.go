// Package python tests with the real host that a plugin in plain Python, with the distribution's
// gRPC and protobuf and without any code of evictd, keeps the contract and decides which pod is
// evicted. It does not repeat what tests of other plugins cover.
package python
