// Package eviction defines the vocabulary of evictd: signals, observations, pod rows, measurements
// and the contract between the host and its plugins. It depends on the standard library only.
//
// Plugin authors and the host share it. It contains no policy (host/internal/core/policy), no wire
// format (shared/proto, shared/wire) and no way to run a plugin (sdk).
//
// All amounts are int64 in the base unit of their signal: bytes, inodes or
// processes. Where the type does not imply the unit, the name does.
package eviction
