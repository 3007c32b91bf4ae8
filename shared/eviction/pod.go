package eviction

import "time"

// QoSClass is a pod's quality of service class.
type QoSClass string

// The classes of Kubernetes.
const (
	Guaranteed QoSClass = "Guaranteed"
	Burstable  QoSClass = "Burstable"
	BestEffort QoSClass = "BestEffort"
)

// Pod is the compact row that plugins see of a pod.
type Pod struct {
	UID       string
	Namespace string
	Name      string
	// Labels and Annotations hold the keys that the plugin asked for, if set.
	Labels      map[string]string
	Annotations map[string]string
	Priority    int32
	QoSClass    QoSClass
	// StartTime is status.startTime or, of a pod that the host found through the
	// container runtime only, when its sandbox was made. Zero when not known.
	StartTime time.Time
	// OwnerKind is the kind of the controlling owner, "" without one.
	OwnerKind string
	// Effective requests by the kubelet's rule: sidecars, init containers,
	// overhead, pod-level resources, allocated values.
	MemoryRequestBytes           int64
	EphemeralStorageRequestBytes int64
	Volumes                      []Volume
	// Running: a container of it runs, as far as the pod source knows. Then what
	// cannot be found of it is unknown, and no pod without figures.
	Running bool
	// Containers are those known to the runtime, so that a plugin finds their
	// figures by id. Only sent with MeasureRequest.Detail DetailContainers, and
	// empty when the pod source has no runtime.
	Containers []Container
}

// Volume is a volume of a pod.
type Volume struct {
	Name string
	// Kind is the field of the volume source: "emptyDir", "hostPath", ...
	Kind string
	// Medium is emptyDir.medium, "" for the default.
	Medium string
	// CountsForRanking: the kubelet counts the volume as local storage.
	CountsForRanking bool
}

// Container is a container of a pod.
type Container struct {
	// Name is the name in the pod's spec.
	Name string
	// ID is the runtime's id, without a scheme.
	ID string
}
