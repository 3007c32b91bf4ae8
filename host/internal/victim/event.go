package victim

// Reasons and texts of the events and statuses around evictions, as the kubelet
// words them (pkg/kubelet/events, eviction and preemption).
const (
	// ReasonEvicted marks the pod's event, and its status.
	ReasonEvicted = "Evicted"
	// ReasonExceededGracePeriod marks a kill that took longer than Timeout.
	ReasonExceededGracePeriod  = "ExceededGracePeriod"
	MessageExceededGracePeriod = "Container runtime did not kill the pod within specified grace period."
	// ReasonPreempting marks a pod that made room for a critical one.
	ReasonPreempting = "Preempting"
	MessagePreempted = "Preempted in order to admit critical pod"
)
