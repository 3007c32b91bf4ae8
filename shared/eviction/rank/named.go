package rank

import (
	"cmp"

	"github.com/evictd/evictd/shared/eviction"
)

// Memory is the order under memory pressure, to be chained with a vendor's comparators.
func Memory() Compare { return For(eviction.MemoryAvailable) }

// Disk is the order under pressure on a filesystem's bytes or inodes, for the signal s.
func Disk(s eviction.Signal) Compare { return For(s) }

// PID is the order under PID pressure.
func PID() Compare { return For(eviction.PIDAvailable) }

// Priority puts the pod with the lower priority first.
func Priority(a, b *eviction.Candidate) int { return cmp.Compare(a.Pod.Priority, b.Pod.Priority) }

// ExceedsRequest puts pods first that use more of s than they request. Pods without stats
// come before them; pods with unknown usage count as not exceeding.
func ExceedsRequest(s eviction.Signal) Compare { return by(exceedsRequest(s)) }

// Usage puts the pod that uses more of s first. Pods without stats come before all others,
// pods with unknown usage after them.
func Usage(s eviction.Signal) Compare { return by(usage(s)) }

// UsageOverRequest puts the pod first that uses more of s beyond its request. Pods without
// stats come before all others, pods with unknown usage after them.
//
// Inodes cannot be requested; there the kubelet subtracts the request for ephemeral storage,
// bytes from inodes (rankDiskPressureFunc). This is kept so that the same pod is evicted:
// within a priority, one with such a request comes last.
func UsageOverRequest(s eviction.Signal) Compare { return by(usageOverRequest(s)) }
