// Package host is the eviction manager as a library: it puts the loop, the
// plugin supervisor, the pod source, the killer and the run directory together
// and keeps them in order from start to end. host/cmd/evictd is its first
// embedder.
//
// It decides nothing by itself: what thresholds mean is host/internal/policy,
// the order of a pass host/internal/loop.
package host
