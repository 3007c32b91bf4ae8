// Package rank implements the kubelet's eviction orders as comparators of
// candidates, and the criteria that they are built from.
//
// It only sorts: it measures nothing, knows no thresholds and protects no pod.
// Pods that must not be evicted are never among the candidates.
package rank
