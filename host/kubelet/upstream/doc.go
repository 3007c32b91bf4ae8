// Package upstream runs the kubelet's own tests of eviction and preemption against evictd: with
// in-process plugins, with plugin processes, and with the kubelet's own manager as the control.
// testdata/expected.txt lists the results.
//
// make kubelet-test builds what they need.
package upstream
