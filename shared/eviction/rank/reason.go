package rank

import (
	"math/bits"
	"strconv"

	"github.com/evictd/evictd/shared/eviction"
)

// Reason names in a few words the figures that decide the rank of c: "exceeds request by
// 1.5Gi, priority 0".
func Reason(c *eviction.Candidate) string { return string(appendReason(nil, c)) }

func appendReason(b []byte, c *eviction.Candidate) []byte {
	switch c.Measurement.State {
	case eviction.NoStats:
		b = append(b, "no stats, "...)
	case eviction.MeasurementUnknown:
		b = append(b, "usage unknown, "...)
	case eviction.Measured:
		if s, ok := ranked(&c.Measurement); ok {
			b = append(appendUsage(b, s, c), ", "...)
		}
	}
	b = append(b, "priority "...)
	return strconv.AppendInt(b, int64(c.Pod.Priority), 10)
}

// ranked returns the signal that m was made for, false if m has figures of several signals
// and it is not clear which one counts.
func ranked(m *eviction.Measurement) (eviction.Signal, bool) {
	if len(m.Usage) == 1 {
		return m.Usage[0].Signal, true
	}
	for i := range m.Usage {
		if d, _ := eviction.Builtin(m.Usage[i].Signal); d.Condition != eviction.MemoryPressure {
			return "", false
		}
	}
	return eviction.MemoryAvailable, m.WorkingSetBytes.OK || len(m.Usage) > 0
}

func appendUsage(b []byte, s eviction.Signal, c *eviction.Candidate) []byte {
	usage, request := usageOf(s)(c), requestOf(s)(c)
	d, _ := eviction.Builtin(s)
	switch {
	case d.Unit != eviction.UnitBytes:
		b = append(strconv.AppendInt(append(b, "uses "...), usage, 10), ' ')
		if d.Unit == "" {
			return append(b, "of "+string(s)...)
		}
		b = append(b, string(d.Unit)...)
		if d.Unit == eviction.UnitInodes && c.Pod.EphemeralStorageRequestBytes != 0 {
			b = append(b, ", requests "...)
			b = appendBytes(b, magnitude(c.Pod.EphemeralStorageRequestBytes, 0))
		}
		return b
	case usage > request:
		return appendBytes(append(b, "exceeds request by "...), magnitude(usage, request))
	case usage == request:
		return append(b, "uses what it requests"...)
	default:
		return append(appendBytes(b, magnitude(request, usage)), " below request"...)
	}
}

// magnitude returns a-b for a >= b; the difference of two int64 fits into a uint64.
func magnitude(a, b int64) uint64 { return uint64(a) - uint64(b) }

// appendBytes prints n with at most one digit after the point, as "1.5Gi".
func appendBytes(b []byte, n uint64) []byte {
	unit := max(0, bits.Len64(n)-1) / 10
	if unit == 0 {
		return strconv.AppendUint(b, n, 10)
	}
	whole, tenth := n>>(10*unit), (n>>(10*unit-10)&1023)*10/1024
	b = strconv.AppendUint(b, whole, 10)
	if tenth > 0 {
		b = append(b, '.', byte('0'+tenth))
	}
	return append(b, "KMGTPE"[unit-1], 'i')
}
