package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// Rules are the kubelet's feature gates that decide what a pod requests and of
// which class it is.
type Rules struct {
	// PodLevelResources: what is requested for a pod as a whole counts instead of
	// what its containers request. Without it the kubelet still takes requests
	// for the whole pod before the sum of its containers', but for each resource
	// on its own, and no longer for the class.
	PodLevelResources bool
}

// defaultRules are those of a kubelet whose gates nobody has touched.
var defaultRules = Rules{PodLevelResources: true}

// Row is Rules.Row with the kubelet's default gates.
func Row(pod *v1.Pod, containers []eviction.Container) eviction.Pod {
	return defaultRules.Row(pod, containers)
}

// Requests is Rules.Requests with the kubelet's default gates.
func Requests(pod *v1.Pod) map[v1.ResourceName]int64 { return defaultRules.Requests(pod) }

// QoSClass is Rules.QoSClass with the kubelet's default gates.
func QoSClass(pod *v1.Pod) eviction.QoSClass { return defaultRules.QoSClass(pod) }
