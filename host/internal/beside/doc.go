// Package beside says how evictd and the kubelet of the same node get along: who acts first on which signal, which
// condition is not reported, what the kubelet's thresholds cost, what its restart under pressure would do, and which
// settings of the kubelet would be right.
//
// It takes values and returns values. Where the two configurations come from is not its business.
package beside
