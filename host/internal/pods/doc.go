// Package pods has what a pod source says of the pods of the node, and what the
// kubelet's rules make of a v1.Pod: requests, class, volumes, the compact row that
// policy and plugins see.
//
// It finds no pods: that is the packages below host/internal/podsource.
package pods
