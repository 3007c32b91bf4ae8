// Package conformance checks that a plugin keeps the contract of package eviction and its protocol:
// handshake, deadlines, bounds, idempotence, concurrency, malformed input, orderly shutdown.
//
// It starts an executable of any language as the host does, or serves a value in this process, and
// calls it with made-up pods. `evictd plugins verify` and sdk/sdktest are built on it. It does not
// judge whether a ranking is wise or a figure true, and it is not the host: it evicts nothing.
package conformance
