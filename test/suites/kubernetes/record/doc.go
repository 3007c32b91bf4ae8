// Package record captures what a cluster shows of an eviction, and compares two field by
// field: the pod, its owner and the events, with what differs from run to run by
// nature (names, uids, times, amounts) made alike.
//
// It is not a judge: which differences are right the caller lists.
package record
