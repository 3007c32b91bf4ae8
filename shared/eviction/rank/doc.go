// Package rank has the kubelet's orders of eviction as comparators of
// candidates, and the blocks that they are built from.
//
// It sorts values: it measures nothing, knows no thresholds and protects no pod.
// Who must not be evicted is not among the candidates in the first place.
package rank
