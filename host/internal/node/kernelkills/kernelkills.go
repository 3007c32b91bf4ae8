// Package kernelkills finds out which pods and containers the kernel's OOM killer has killed processes of, and at whose memory
// limit, by the counters of cgroups alone. What they do not show is unknown.
package kernelkills

import (
	"fmt"
	"sync/atomic"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/nodefs"
)

// attempts bounds how often counters are read that moved meanwhile.
const attempts = 5

// A Kill has the processes of one cgroup that the kernel killed between two looks.
type Kill struct {
	// PodUID and ContainerID are empty if they are not known, ContainerID also for a cgroup that is gone.
	PodUID, ContainerID string
	// Scope is one of decision's.
	Scope     string
	Processes int64
	// LimitBytes is the limit at which memory ran out, 0 if it is not known.
	LimitBytes int64
}

// A Watch finds kills. Look belongs to one goroutine, Moved may be called from any.
type Watch struct {
	fs         nodefs.FS
	cgroupRoot string
	total      *nodefs.Gauge[int64]
	// seen is the kernel's count at the last look, -1 before the first, counts those of cgroups.
	seen   atomic.Int64
	counts map[string]nodefs.OOMCounts
}

// New returns a Watch of the pods below the kubelet's --cgroup-root.
func New(fs nodefs.FS, cgroupRoot string) *Watch {
	w := &Watch{fs: fs, cgroupRoot: cgroupRoot, total: nodefs.OOMKills(fs)}
	w.seen.Store(-1)
	return w
}

// Moved reports whether Look has something to find: the kernel has killed a process, or it was never called.
func (w *Watch) Moved() bool {
	buffer, release := nodefs.BorrowBuffer()
	defer release()
	total, err := w.total.Read(buffer)
	return err == nil && total != w.seen.Load()
}

// Look returns the kills since the last call. The first one returns none: it takes the counters as they are. calm says that the
// node has had memory to spare since. Version 1 does not count OOMs: on a calm node a limit that was reached is the cause.
func (w *Watch) Look(calm bool) ([]Kill, error) {
	var now []nodefs.OOMCgroup
	var version nodefs.Version
	var total int64
	buffer, release := nodefs.BorrowBuffer()
	defer release()
	for range attempts {
		before, err := w.total.Read(buffer)
		if err != nil {
			return nil, fmt.Errorf("count kernel kills: %w", err)
		}
		if now, version, err = nodefs.OOMCgroups(w.fs, w.cgroupRoot); err != nil {
			return nil, fmt.Errorf("read the OOM counters of pods: %w", err)
		}
		if total, err = w.total.Read(buffer); err != nil {
			return nil, fmt.Errorf("count kernel kills: %w", err)
		}
		if total == before {
			break
		}
	}
	seen, former := w.seen.Swap(total), w.counts
	w.counts = make(map[string]nodefs.OOMCounts, len(now))
	for _, c := range now {
		w.counts[c.Cgroup] = c.OOMCounts
	}
	if seen < 0 || total <= seen {
		return nil, nil
	}
	return found(now, former, total-seen, version, calm), nil
}

// found returns what the counters of cgroups show of so many kills, given their former counters: a cgroup without has been made
// since.
func found(now []nodefs.OOMCgroup, former map[string]nodefs.OOMCounts, killed int64, version nodefs.Version, calm bool) (kills []Kill) {
	s := scopes{calm: calm, of: make(map[string]*moved, len(now))}
	for _, c := range now {
		was := former[c.Cgroup]
		m := &moved{OOMCgroup: c, fell: fell(c.OOMCounts, was)}
		m.OOMs, m.OOMsBelow, m.Kills, m.Groups, m.Fails = less(m.OOMs, was.OOMs), less(m.OOMsBelow, was.OOMsBelow), less(m.Kills, was.Kills), less(m.Groups, was.Groups), less(m.Fails, was.Fails)
		s.of[c.Cgroup] = m
	}
	split := s.byLimits
	if version == nodefs.V2 {
		s.explain()
		split = s.byOOMs
	}
	for _, c := range now {
		if m := s.of[c.Cgroup]; m.PodUID != "" && !m.fell && m.Kills > 0 {
			for _, k := range split(m) {
				kills, killed = append(kills, k), killed-k.Processes
			}
		}
	}
	if killed > 0 {
		kills = append(kills, Kill{Scope: decision.ScopeUnknown, Processes: killed})
	}
	return kills
}

// less returns by how much a counter has grown, -1 if it is not counted.
func less(now, was int64) int64 {
	if now < 0 || was < 0 {
		return -1
	}
	return now - was
}

// fell reports whether a counter is less than before: the cgroup has been made again.
func fell(now, was nodefs.OOMCounts) bool {
	for _, c := range [][2]int64{{now.Kills, was.Kills}, {now.OOMs, was.OOMs}, {now.OOMsBelow, was.OOMsBelow}, {now.Fails, was.Fails}} {
		if c[0] >= 0 && c[0] < c[1] {
			return true
		}
	}
	return false
}

// moved is a cgroup with the growth of its counters.
type moved struct {
	nodefs.OOMCgroup

	fell bool
	// own counts how often the kernel killed for the cgroup's own limit, rest for another one's.
	own, rest int64
}

func (m *moved) kill(scope string, limit int64) []Kill {
	return []Kill{{m.PodUID, m.ContainerID, scope, m.Kills, limit}}
}

type scopes struct {
	calm bool
	of   map[string]*moved
	// outside counts how often the kernel killed for other limits than a container's, less how often it did so in all.
	outside int64
}

// explain leaves each pod what its containers do not account for, as those do that are gone, and finds out which kills are those
// of containers' own limits.
func (s *scopes) explain() {
	for _, m := range s.of {
		if pod := s.of[m.Parent]; m.ContainerID != "" && pod != nil {
			pod.Kills, pod.Groups, pod.OOMsBelow = pod.Kills-max(0, m.Kills), pod.Groups-max(0, m.Groups), pod.OOMsBelow-max(0, m.OOMsBelow)
		}
	}
	for _, m := range s.of {
		if m.ContainerID == "" {
			if m.OOMsBelow -= m.OOMs; m.OOMs < 0 { // whose they were is not known
				m.OOMsBelow = 0
			}
			s.outside += max(0, m.OOMs)
		}
	}
	for _, m := range s.of {
		times := m.Kills
		if m.Groups > 0 {
			times = m.Groups
		}
		if m.PodUID != "" && times > 0 {
			m.own = min(times, max(0, m.OOMsBelow))
			m.rest = times - m.own
			s.outside -= m.rest
		}
	}
}

// byOOMs returns the kills in the cgroup of a pod or container by whose limit they were at.
func (s *scopes) byOOMs(m *moved) []Kill {
	limit := int64(0)
	if m.ContainerID != "" {
		limit = m.LimitBytes
	}
	if m.rest == 0 {
		return m.kill(decision.ScopeContainer, limit)
	}
	scope, outer := s.outer(m)
	switch {
	case m.own == 0:
		return m.kill(scope, outer)
	case m.Groups > 0: // how many processes each time is not known
		return m.kill(decision.ScopeUnknown, 0)
	default:
		return []Kill{{m.PodUID, m.ContainerID, decision.ScopeContainer, m.own, limit}, {m.PodUID, m.ContainerID, scope, m.rest, outer}}
	}
}

// outer returns the one cgroup around a container whose limit was reached, the node if there is none, or neither if it may be
// another one.
func (s *scopes) outer(m *moved) (scope string, limit int64) {
	scope = decision.ScopeNode
	at := m.Parent
	if m.ContainerID == "" {
		at = m.Cgroup
	}
	for ; at != ""; at = s.of[at].Parent {
		c := s.of[at]
		switch {
		case c == nil || c.OOMs < 0 || c.fell:
			return decision.ScopeUnknown, 0
		case c.OOMs == 0:
		case scope == decision.ScopeNode && s.outside >= 0: // the node has not killed
			scope, limit = scopeOf(c), c.LimitBytes
		default:
			return decision.ScopeUnknown, 0
		}
	}
	return scope, limit
}

// byLimits is byOOMs for version 1, by the limits that were reached since: those are reached without a kill, too.
func (s *scopes) byLimits(m *moved) []Kill {
	scope, limit := decision.ScopeNode, int64(0)
	for at := m.Cgroup; at != ""; at = s.of[at].Parent {
		c := s.of[at]
		switch {
		case c == nil || c.fell:
			return m.kill(decision.ScopeUnknown, 0)
		case c.LimitBytes == 0 || c.Fails <= 0 && !c.Reached:
		case scope == decision.ScopeNode && s.calm, scope == decision.ScopeContainer && c.PodUID != "": // a kubelet's pod has the sum of its containers' limits
			scope, limit = scopeOf(c), c.LimitBytes
		default:
			return m.kill(decision.ScopeUnknown, 0)
		}
	}
	if scope == decision.ScopeNode && s.calm {
		scope = decision.ScopeUnknown
	}
	return m.kill(scope, limit)
}

func scopeOf(c *moved) string {
	switch {
	case c.ContainerID != "":
		return decision.ScopeContainer
	case c.PodUID != "":
		return decision.ScopePod
	case c.Class:
		return decision.ScopeClass
	default:
		return decision.ScopeKubepods
	}
}
