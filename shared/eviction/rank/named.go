package rank

import (
	"cmp"

	"github.com/evictd/evictd/shared/eviction"
)

// Memory is the order under memory pressure, to be chained with a vendor's own.
func Memory() Compare { return For(eviction.MemoryAvailable) }

// Disk is the order under pressure on a filesystem's bytes or inodes, s being the signal.
func Disk(s eviction.Signal) Compare { return For(s) }

// PID is the order under PID pressure.
func PID() Compare { return For(eviction.PIDAvailable) }

// Priority puts the lower priority first.
func Priority(a, b *eviction.Candidate) int { return cmp.Compare(a.Pod.Priority, b.Pod.Priority) }

// ExceedsRequest puts pods first that use more of s than they have requested.
// Pods without stats go before them; pods of unknown use do not exceed.
func ExceedsRequest(s eviction.Signal) Compare { return by(exceedsRequest(s)) }

// Usage puts the larger use of s first. Pods without stats go before all others
// and pods of unknown use after them.
func Usage(s eviction.Signal) Compare { return by(usage(s)) }

// UsageOverRequest puts the larger use of s beyond the request first. Pods without
// stats go before all others and pods of unknown use after them.
//
// For inodes, which cannot be requested, the kubelet subtracts the request for
// ephemeral storage, bytes from inodes (rankDiskPressureFunc). It is kept so that
// the same pod goes first: inside a priority one with such a request never does.
func UsageOverRequest(s eviction.Signal) Compare { return by(usageOverRequest(s)) }
