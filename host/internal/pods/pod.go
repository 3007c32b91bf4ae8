// Package pods has what a pod source says of the pods of the node, and what the
// kubelet's rules make of a v1.Pod: requests, class, volumes, the compact row that
// policy and plugins see.
//
// It finds no pods: that is the packages below host/internal/podsource.
package pods

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/shared/eviction"
)

// A Pod is an active pod of the node. Its API object is shared by all snapshots
// and must not be changed.
type Pod struct {
	// API is the manifest. Without one it holds only the pod's identity.
	API *v1.Pod
	// Row holds the fields for policy and plugins, without labels and annotations: see Filter.
	Row eviction.Pod
	// SandboxIDs are the ready sandboxes, ContainerIDs the containers that have
	// not exited, both as the runtime names them.
	SandboxIDs   []string
	ContainerIDs []string
	// HasManifest: a manifest says what the pod is. A pod without one is shown
	// and never a candidate, because its priority and requests are not known.
	HasManifest bool
}

// String names the pod as Kubernetes does: namespace/name.
func (p Pod) String() string { return p.Row.Namespace + "/" + p.Row.Name }

// A Source lists the active pods, in a stable order.
type Source interface {
	Active(ctx context.Context) (Snapshot, error)
}

// A Snapshot is the active pods at one time, in the order of their creation,
// and the manifests that are not as they should be.
type Snapshot struct {
	Pods     []Pod
	Problems []Problem
	// Partial says why pods may be missing that run; nil if none is.
	Partial error
	// Ended are pods that do not run: those with a manifest, and those that had one
	// and have left something behind.
	Ended []Ended
	// Complete: a pod that is neither in Pods nor in Ended does not exist.
	Complete bool
}

// An Ended is a pod that does not run and of which something may be left: dead
// containers, a dead sandbox, logs.
type Ended struct {
	UID string
	// State is PodDeleted when its manifest is gone, PodTerminated when it never
	// runs again, and PodActive when it may be started, again or for the first
	// time since the runtime has forgotten it.
	State eviction.PodState
}

// A Problem is an error in a manifest. Others are not affected.
type Problem struct {
	// File is the manifest's path, or the directory's.
	File string
	Err  error
	// Used: the manifest counts in spite of the problem.
	Used bool
}

// Error says what is wrong with which file, on one line of bounded length.
func (p Problem) Error() string {
	file, err := input.ClipText(p.File), input.ClipText(p.Err.Error())
	if p.Used {
		return file + ": " + err + " (used all the same)"
	}
	return file + ": " + err
}

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }
