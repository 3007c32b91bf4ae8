// Package upstream has its tests run the kubelet's own tests of eviction and preemption
// against evictd: with its plugins inside and as processes, and with the kubelet's own manager
// as the control. What each of them does is in testdata/expected.txt.
//
// make kubelet-test builds what they need.
package upstream
