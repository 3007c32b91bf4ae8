// Package eviction is the vocabulary of evictd: signals, observations, pod
// rows, measurements and the contract between the host and its plugins, in
// terms of the standard library alone.
//
// Plugin authors and the host share it. It is not a policy (host/internal/policy), not a wire
// format (shared/proto, shared/wire) and not a way to run a plugin (sdk).
//
// All amounts are int64 in the base unit of their signal: bytes, inodes or
// processes. Names that carry no unit in their type carry it in their name.
package eviction
