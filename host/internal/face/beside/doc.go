// Package beside compares evictd's configuration with that of the kubelet on the same node. It
// finds which acts first on which signal, which condition is not reported, what the kubelet's
// thresholds cost, what its restart under pressure would do, and which settings the kubelet should
// have.
//
// It is pure: its callers read the configurations.
package beside
