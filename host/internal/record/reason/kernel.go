package reason

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/decision"
)

// Killed says how many processes the kernel killed.
func Killed(k *decision.Kernel) string {
	if k.Processes == 1 {
		return "the kernel killed a process"
	}
	return fmt.Sprintf("the kernel killed %d processes", k.Processes)
}

// Kernel explains a kernel kill to the owner of the pod: whose memory had run out, and what would have spared it.
func Kernel(k *decision.Kernel) string {
	text := Killed(k)
	if k.Container != "" {
		text += " of container " + k.Container
	}
	limit := "its limit"
	if k.LimitBytes > 0 {
		limit = "its limit of " + resource.NewQuantity(k.LimitBytes, resource.BinarySI).String()
	}
	const likely = "; a request nearer to its use makes the kernel choose it later"
	switch k.Scope {
	case decision.ScopeContainer:
		return text + ": the container reached " + limit + " of memory; a larger limit, or less use, would have spared it"
	case decision.ScopePod:
		return text + ": the containers of the pod together reached " + limit + " of memory; a larger limit, or less use, would have spared it"
	case decision.ScopeClass:
		return text + ": all pods of its QoS class together reached " + limit + " of memory" + likely
	case decision.ScopeKubepods:
		return text + ": all pods together reached " + limit + " of memory" + likely
	case decision.ScopeNode:
		return text + ": the node had no memory left" + likely
	default:
		return text + ": at whose limit of memory is not known"
	}
}
