package rank

import (
	"cmp"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// A key is what For compares of a candidate, read once.
type key struct {
	// exceeds and known are the classes of ExceedsRequest and byFigure.
	exceeds, known int8
	priority       int32
	// hi and lo are the use beyond the request, in 128 bits.
	hi int64
	lo uint64
	// qos counts for own signals only, 0 for others.
	qos int8
	at  int32 // in the list of candidates
}

func compareKeys(a, b key) int {
	switch {
	case a.exceeds != b.exceeds:
		return cmp.Compare(a.exceeds, b.exceeds)
	case a.priority != b.priority:
		return cmp.Compare(a.priority, b.priority)
	case a.known != b.known:
		return cmp.Compare(a.known, b.known)
	case a.known == figureKnown && a.hi != b.hi:
		return cmp.Compare(b.hi, a.hi)
	case a.known == figureKnown && a.lo != b.lo:
		return cmp.Compare(b.lo, a.lo)
	case a.qos != b.qos:
		return cmp.Compare(a.qos, b.qos)
	default:
		return cmp.Compare(a.at, b.at)
	}
}

// Kubelet is Sort by For(s), several times as fast.
func Kubelet(candidates []eviction.Candidate, s eviction.Signal) []eviction.Ranked {
	d, builtin := eviction.Builtin(s)
	requests := d.Condition == eviction.MemoryPressure || d.Condition == eviction.DiskPressure
	usage, request, subtracted := usageOf(s), requestOf(s), subtractedFor(s)
	keys := make([]key, len(candidates))
	for i := range candidates {
		c := &candidates[i]
		k := key{priority: c.Pod.Priority, known: figureClass(c), at: int32(i)} //nolint:gosec // a node has fewer pods
		if !builtin {
			k.qos = int8(qosOrder(c.Pod.QoSClass)) //nolint:gosec // one of three
		}
		if k.known == figureKnown {
			used := usage(c)
			var beyond int64
			if requests {
				k.exceeds = classOf(c, used > request(c))
				beyond = subtracted(c)
			}
			k.hi, k.lo = difference(used, beyond)
		} else if requests {
			k.exceeds = classOf(c, false)
		}
		keys[i] = k
	}
	slices.SortFunc(keys, compareKeys)
	order := make([]int, len(keys))
	for i := range keys {
		order[i] = int(keys[i].at)
	}
	return ranking(candidates, order)
}

// reasoned is how many of a ranking get a reason: nobody reads further.
const reasoned = 64

// ranking gives the first candidates in order their reasons, which share one piece
// of memory.
func ranking(candidates []eviction.Candidate, order []int) []eviction.Ranked {
	var text []byte
	ends := make([]int, min(len(order), reasoned))
	for at := range ends {
		text = appendReason(text, &candidates[order[at]])
		ends[at] = len(text)
	}
	reasons, from := string(text), 0
	ranked := make([]eviction.Ranked, len(order))
	for at, i := range order {
		ranked[at].UID = candidates[i].Pod.UID
		if at < len(ends) {
			ranked[at].Reason = reasons[from:ends[at]]
			from = ends[at]
		}
	}
	return ranked
}
