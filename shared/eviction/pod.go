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

// Pod is the compact description of a pod that plugins receive.
type Pod struct {
	UID       string
	Namespace string
	Name      string
	// Labels and Annotations have only the keys that the plugin wants (Plugin.WantLabels).
	Labels      map[string]string
	Annotations map[string]string
	Priority    int32
	QoSClass    QoSClass
	// StartTime is status.startTime or, for a pod known only to the container runtime, the
	// creation time of its sandbox. Zero if not known.
	StartTime time.Time
	// OwnerKind is the kind of the controlling owner, "" if there is none.
	OwnerKind string
	// Effective requests in bytes by the kubelet's rules: sidecars, init containers,
	// overhead, pod-level resources and allocated values are taken into account.
	MemoryRequestBytes           int64
	EphemeralStorageRequestBytes int64
	Volumes                      []Volume
	// Running: a container of the pod runs, as far as the pod source knows. If its figures
	// cannot be found, the answer is then MeasurementUnknown and not NoStats.
	Running bool
	// Containers are the pod's containers in the runtime, so that a plugin finds their
	// figures by ID. They are sent only with MeasureRequest.Detail DetailContainers, and are
	// empty if the pod source has no runtime.
	Containers []Container
}

// Volume is a volume of a pod.
type Volume struct {
	Name string
	// Kind is the field of the volume source: "emptyDir", "hostPath", ...
	Kind string
	// Medium is emptyDir.medium, "" for the default.
	Medium string
	// CountsForRanking: the kubelet counts the volume as local storage of the pod.
	CountsForRanking bool
}

// Container is a container of a pod.
type Container struct {
	// Name is the name in the pod's spec.
	Name string
	// ID is the runtime's ID, without the runtime's scheme ("containerd://").
	ID string
}
