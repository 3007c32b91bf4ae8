package pressure

import (
	"os"
	"slices"
	"time"
)

// A look has what the rule needs of one reading of the node.
type look struct {
	// at is the time since the boot, also of a machine that was suspended.
	at time.Duration
	// refaults and scans are the kernel's counters.
	refaults, scans int64
	// reclaimable has the bytes that MemAvailable counts, and memory.available where there is no such figure: page cache that
	// becomes active, as a database's does, takes nothing away from it. Of these the kernel does not give protected away.
	reclaimable, protected int64
	// stalled has the pressure stall information of the root, all pods and the system's services: totals, or unknownStall.
	stalled [3]time.Duration
}

// unknownStall stands for a kernel or a cgroup without pressure stall information.
const unknownStall = time.Duration(-1)

// looks are those of the longest of the windows and the last one before it, the oldest first.
type looks []look

// windows are the lengths of time in which memory may fall, as multiples of the window.
var windows = [...]time.Duration{1, 2, 4}

// unbroken is the longest time between two looks of a window, as a multiple of it.
const unbroken = 2

// add adds the next look. If it cannot follow the last one, it is the first again, and add says why.
func (l *looks) add(next look, window time.Duration) (broken string) {
	if n := len(*l); n > 0 {
		switch last := (*l)[n-1]; {
		case next.at < last.at:
			broken = "the clock went back"
		case next.at-last.at > unbroken*window:
			broken = "looks were missing"
		case next.refaults < last.refaults || next.scans < last.scans:
			broken = "counters went back"
		}
	}
	if broken != "" {
		*l = (*l)[:0]
	}
	for len(*l) > 1 && next.at-(*l)[1].at >= windows[len(windows)-1]*window {
		*l = append((*l)[:0], (*l)[1:]...)
	}
	*l = append(*l, next)
	return broken
}

// before returns the newest look that is at least so much older than the newest.
func (l looks) before(age time.Duration) (look, bool) {
	for _, earlier := range slices.Backward(l) {
		if l[len(l)-1].at-earlier.at >= age {
			return earlier, true
		}
	}
	return look{}, false
}

// A verdict says whether the node thrashes.
type verdict struct {
	// falls: refaults or direct scans grew enough in both halves of the window, and reclaimable memory fell. brink: they grew,
	// and it is below the node's hard threshold, without what is protected.
	falls, brink bool
	// stirs: they grew in the last half, and reclaimable memory fell or is short: it may be the first half of a window.
	stirs bool
	// Of the window:
	refaults, scans, fell int64
	over                  time.Duration
	// fellMost is the largest fall in one of the windows.
	fellMost int64
	stalled  [3]time.Duration
}

func (v verdict) thrashes() bool { return v.falls || v.brink }

// A rule decides whether a node thrashes. PSI takes no part: a pod at its own limit, a copy of a file and a burst of syncs
// stall as much, and a kernel of another version stalls differently. Refaults alone count a pod at its own limit. On a node
// that thrashes MemAvailable falls from second to second as well, until a hog stops at the brink.
type rule struct {
	window time.Duration
	// brink is the node's hard threshold in bytes.
	brink int64
}

// MemAvailable falls if it fell by 1/fallPart of what is left in one, two or four windows, and still falls by 1/stillPart in
// the last one. At such a pace memory is used up in 5, 11 or 21 windows: a slow fall must have lasted longer, as a pod at its limit,
// a build, or a copy beside a pod that grows moves MemAvailable for some seconds, too. On a node of 640 MiB this told them from
// hogs of 5 MiB a second.
const fallPart, stillPart = 16, 128

// A few refaults are no thrashing: those of a window, or its direct scans, are at least 1/refaultPart of what is left, or
// enoughBytes where that is less, as a slow disk reads no more. In the windows of the recorded thrashes they were 1/74 at
// least. The refaults of one process that reads its own file, 20 a second with 6 GiB left, are 1/39000.
const refaultPart, enoughBytes = 1024, 4 << 20

var pageBytes = int64(os.Getpagesize())

// grow reports whether a counter of pages grew in both halves of a window, and enough in all.
func grow(first, half, last, left int64) bool {
	return half > first && last > half && (last-first)*pageBytes >= min(left/refaultPart, enoughBytes)
}

// fell returns by how much reclaimable memory fell since a look: its least figure in the first third of the time since then,
// less its largest in the last third. What comes and goes meanwhile does not count.
func (l looks) fell(since look) int64 {
	last := l[len(l)-1]
	third := (last.at - since.at) / 3
	least, most := since.reclaimable, last.reclaimable
	for _, at := range l {
		if at.at >= since.at && at.at-since.at <= third {
			least = min(least, at.reclaimable)
		}
		if last.at-at.at <= third {
			most = max(most, at.reclaimable)
		}
	}
	return least - most
}

// A fall by 1/fastPart of what is left in half of a window counts at once: at such a pace memory is used up in one or two windows.
const fastPart = 8

// judge judges the newest look by those before. ok is false as long as they are less than a window.
func (r rule) judge(l looks) (v verdict, ok bool) {
	if v, ok = r.over(l, r.window); ok && !v.thrashes() {
		fast, _ := r.over(l, r.window/2)
		if fast.falls && fast.fell >= l[len(l)-1].reclaimable/fastPart {
			return fast, true
		}
	}
	return v, ok
}

// over judges by a window of this length.
func (r rule) over(l looks, window time.Duration) (v verdict, ok bool) {
	a, ok := l.before(window)
	b, half := l.before(window / 2)
	if !half {
		return v, false
	}
	c := l[len(l)-1]
	later := c.refaults > b.refaults || c.scans > b.scans
	v.stirs = later && (b.reclaimable-c.reclaimable >= c.reclaimable/stillPart/2 || c.reclaimable-c.protected < 2*r.brink)
	if !ok {
		return v, false
	}
	v.refaults, v.scans, v.fell, v.over = c.refaults-a.refaults, c.scans-a.scans, l.fell(a), c.at-a.at
	for i := range v.stalled {
		if v.stalled[i] = unknownStall; a.stalled[i] >= 0 && c.stalled[i] >= a.stalled[i] {
			v.stalled[i] = c.stalled[i] - a.stalled[i]
		}
	}
	v.fellMost = v.fell
	for _, n := range windows[1:] {
		if since, long := l.before(n * r.window); long {
			v.fellMost = max(v.fellMost, l.fell(since))
		}
	}
	both := grow(a.refaults, b.refaults, c.refaults, c.reclaimable) || grow(a.scans, b.scans, c.scans, c.reclaimable)
	v.falls = both && v.fell >= max(1, c.reclaimable/stillPart) && v.fellMost >= c.reclaimable/fallPart
	v.brink = both && c.reclaimable-c.protected < r.brink
	return v, true
}
