package pods

// Rules are the kubelet's feature gates that decide what a pod requests and of
// which class it is.
type Rules struct {
	// PodLevelResources: what is requested for a pod as a whole counts instead of
	// what its containers request. Without it the kubelet still takes requests
	// for the whole pod before the sum of its containers', but for each resource
	// on its own, and no longer for the class.
	PodLevelResources bool
}
