// Package conformance checks that a plugin keeps the contract of package
// eviction and its protocol: handshake, deadlines, bounds, idempotence,
// concurrency, garbage in, an orderly end.
//
// It starts an executable of any language as the host does, or serves a value
// in this process, and calls it with made-up pods. It is what `evictd plugins
// verify` and sdk/sdktest are made of. It does not judge whether a ranking is
// wise or a figure true, and it is not the host: nothing is evicted.
package conformance
