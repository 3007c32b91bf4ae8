// Package python tests with the real host that a plugin of plain Python, with the
// gRPC and protobuf of the distribution and without any code of evictd's, keeps the
// contract and decides who goes. It is not the place for what other plugins show as
// well.
package python
