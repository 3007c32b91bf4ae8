package policy

import (
	"github.com/evictd/evictd/shared/eviction"
)

// ThresholdConfig is the part of KubeletConfiguration that thresholds come from:
// maps from signal to text.
type ThresholdConfig struct {
	Hard            map[string]string
	Soft            map[string]string
	SoftGracePeriod map[string]string
	MinReclaim      map[string]string
	// EnforceNodeAllocatable copies hard memory thresholds to
	// allocatableMemory.available if it has "pods".
	EnforceNodeAllocatable []string
}

// Configuration keys, as in KubeletConfiguration.
const (
	keyHard       = "evictionHard"
	keySoft       = "evictionSoft"
	keySoftGrace  = "evictionSoftGracePeriod"
	keyMinReclaim = "evictionMinimumReclaim"
)

const (
	wantValue      = `want a quantity such as "1Gi" or a percentage such as "10%"`
	wantPercentage = `want a percentage between 0% and 100%, such as "10%", or exactly "0%" for no threshold`
	wantOwn        = `want a plugin's own signal with the plugin's domain, letters, digits, ".", "-" and "_", such as "acme.example/nvme.spare"`
	wantPeriod     = `want a duration such as "1m30s"`
)

// DefaultHard returns the kubelet's hard thresholds on Linux, which hold when
// the configuration has none (eviction/defaults_linux.go).
func DefaultHard() map[string]string {
	return map[string]string{
		string(eviction.MemoryAvailable):   "100Mi",
		string(eviction.NodeFsAvailable):   "10%",
		string(eviction.NodeFsInodesFree):  "5%",
		string(eviction.ImageFsAvailable):  "15%",
		string(eviction.ImageFsInodesFree): "5%",
	}
}
