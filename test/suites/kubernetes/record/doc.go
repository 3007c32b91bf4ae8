// Package record captures what a cluster shows of an eviction, the pod, its owner and the events,
// and compares two captures field by field. It replaces what differs between runs (names, UIDs,
// times, amounts).
//
// It does not judge: the caller lists the allowed differences.
package record
