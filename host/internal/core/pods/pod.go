// Package pods defines the pods that a pod source returns, and applies the kubelet's rules for
// requests, class and volumes to a v1.Pod.
//
// It finds no pods: that is for the packages podsource of node and cluster.
package pods

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
)

// A Pod is an active pod of the node. All snapshots share its API object, which must not be
// modified.
type Pod struct {
	// API is the manifest. Without a manifest it holds only the pod's identity.
	API *v1.Pod
	// Row holds the fields for policy and plugins, without labels and annotations: see Filter.
	Row eviction.Pod
	// SandboxIDs lists the ready sandboxes, ContainerIDs the containers that have not exited, by
	// their ids in the runtime.
	SandboxIDs   []string
	ContainerIDs []string
	// HasManifest: the pod's spec is known. A pod without it is reported but never a candidate,
	// because its priority and requests are unknown.
	HasManifest bool
}

// String names the pod as Kubernetes does: namespace/name.
func (p Pod) String() string { return p.Row.Namespace + "/" + p.Row.Name }

// A Source lists the active pods, in a stable order.
type Source interface {
	Active(ctx context.Context) (Snapshot, error)
}

// A Preparer is a Source that can list in advance: what Prepare has asked for is used by a listing that
// follows within moments.
type Preparer interface{ Prepare(ctx context.Context) }

// A Snapshot holds the active pods at one time, in the order of their creation, and the problems of
// manifests.
type Snapshot struct {
	Pods     []Pod
	Problems []Problem
	// Stale are the inputs that were not new. Running pods may be missing then.
	Stale []Stale
	// Ended lists pods that do not run: those with a manifest, and those that had one and have left
	// something behind.
	Ended []Ended
	// Recheck compares the pods with the cgroups and returns them corrected, if they differ. It is
	// nil if that is done. What takes a moment is begun, so call it after what can be done before.
	Recheck func(ctx context.Context) (corrected Snapshot, differs bool)
	// Complete: a pod that is neither in Pods nor in Ended does not exist.
	Complete bool
}

// Rechecker returns the Recheck of a snapshot that join makes of a list with a check, which may be
// nil.
func Rechecker[List any](check func(context.Context) (List, bool), join func(List) Snapshot) func(context.Context) (Snapshot, bool) {
	if check == nil {
		return nil
	}
	return func(ctx context.Context) (Snapshot, bool) {
		corrected, differs := check(ctx)
		if !differs {
			return Snapshot{}, false
		}
		return join(corrected), true
	}
}

// Rechecked returns the snapshot as Recheck corrects it.
func (s Snapshot) Rechecked(ctx context.Context) Snapshot {
	if s.Recheck != nil {
		if corrected, differs := s.Recheck(ctx); differs {
			return corrected
		}
	}
	return s
}

// A Stale is an input of a decision that was not new.
type Stale struct {
	// Input names it, such as "containers" or "API server".
	Input string
	// Age is the age of the answer that was used, 0 if there was none.
	Age time.Duration
	// Err is why there was no newer one.
	Err error
}

// An Ended is a pod that does not run and may have left something behind: exited containers, a dead
// sandbox, logs.
type Ended struct {
	UID string
	// State is PodDeleted if its manifest is gone, PodTerminated if it never runs again, and
	// PodActive if it may be started, again or for the first time since the runtime forgot it.
	State eviction.PodState
}

// APIServer names the API server in problems, in place of a file, and among the inputs of a decision.
const APIServer = "API server"

// ErrNeverListed reports that the API server has not listed the node's pods yet.
var ErrNeverListed = errors.New("has not listed the node's pods yet; until it has, no pod is a candidate")

// A Problem is an error in a manifest, which does not affect others.
type Problem struct {
	// File is the manifest's path, or the directory's.
	File string
	Err  error
	// Used: the manifest is used in spite of the problem.
	Used bool
}

// Error names the file and its problem, on one line of bounded length.
func (p Problem) Error() string {
	file, err := printable.ClipText(p.File), printable.ClipText(p.Err.Error())
	if p.Used {
		return file + ": " + err + " (used all the same)"
	}
	return file + ": " + err
}

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }
