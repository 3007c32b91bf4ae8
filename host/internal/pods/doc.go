// Package pods knows which pods run on the node: what the container runtime
// says over CRI, joined by uid with v1.Pod manifests from a directory, and the
// compact row that policy and plugins see of each.
//
// It does not say which pod may be evicted (host/internal/policy) and ends none
// (host/internal/victim/cri).
package pods
