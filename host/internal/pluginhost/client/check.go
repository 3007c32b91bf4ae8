package client

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// checkObservations returns the usable part of a reply, and an error about the rest: an impossible
// observation becomes unknown, one that was not asked for is dropped.
//
// Negative values are possible: limits can be set below the usage, and more of a vendor's resource
// can be in use than there is.
//
// relayed figures are those of the kubelet's summary, which its eviction manager accepts even if
// more is available than the capacity.
func checkObservations(asked []eviction.Signal, ownsLayout, relayed bool, reply eviction.ObserveReply) (eviction.ObserveReply, error) {
	var errs []error
	kept := make([]eviction.Observation, 0, len(reply.Observations))
	for _, o := range reply.Observations {
		if !slices.Contains(asked, o.Signal) {
			errs = append(errs, fmt.Errorf("observation of %.100q, which was not asked for", o.Signal))
			continue
		}
		bad := ""
		_, builtin := eviction.Builtin(o.Signal)
		switch i := slices.IndexFunc(kept, func(k eviction.Observation) bool { return k.Signal == o.Signal }); {
		case i >= 0:
			// It is unknown which of the two is right.
			bad = "observed twice in one reply"
			kept = slices.Delete(kept, i, i+1)
		case o.State > eviction.Absent:
			bad = fmt.Sprintf("state %d, want %d to %d", o.State, eviction.Unknown, eviction.Absent)
		case o.State == eviction.Observed && o.Capacity < 0:
			bad = fmt.Sprintf("capacity %d, want at least 0", o.Capacity)
		case o.State == eviction.Observed && o.BootNanos != 0 && eviction.CheckSampleAge(sinceBoot(o.BootNanos)) != nil:
			bad = "by its boot time " + eviction.CheckSampleAge(sinceBoot(o.BootNanos)).Error()
		case o.State == eviction.Observed && o.Available > o.Capacity && (!relayed || !builtin):
			bad = fmt.Sprintf("available %d, want at most the capacity, %d", o.Available, o.Capacity)
		}
		if bad != "" {
			errs = append(errs, fmt.Errorf("%s: %s", o.Signal, bad))
			o = eviction.Observation{Signal: o.Signal, Err: eviction.ErrInvalidReply.Error() + ": " + bad}
		}
		o.Err = shorten(o.Err, maxReasonBytes)
		for i := range o.Components {
			o.Components[i].Name = shorten(o.Components[i].Name, maxNameBytes)
		}
		kept = append(kept, o)
	}
	reply.Observations = kept
	if l := reply.Layout; l != nil {
		l.ImageFsErr, l.ContainerFsErr = shorten(l.ImageFsErr, maxReasonBytes), shorten(l.ContainerFsErr, maxReasonBytes)
	}
	if reply.Layout != nil && !ownsLayout {
		errs = append(errs, errors.New("layout from a plugin that does not own it"))
		reply.Layout = nil
	}
	return reply, errors.Join(errs...)
}

// sinceBoot returns the age of a sample from its boot time, negative if that is in the future.
func sinceBoot(nanos int64) time.Duration {
	now := nodefs.BootNanos()
	if nanos < now-math.MaxInt64 { // the difference must fit into an int64
		return math.MaxInt64
	}
	return time.Duration(now - nanos)
}

// Limits of names and of texts for people.
const (
	maxNameBytes   = 4 << 10
	maxReasonBytes = 1 << 10
)

// shorten cuts s at a character boundary. The result does not keep the rest in memory.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.Clone(strings.ToValidUTF8(s[:most], ""))
}

// checkRanking checks that each entry is a different one of n pods, whose uids at returns, and
// clips the reasons. A ranking that names unknown pods is not trusted at all.
func checkRanking(n int, at func(int) string, ranked []eviction.Ranked) error {
	open := make(map[string]bool, n)
	for i := range n {
		open[at(i)] = true
	}
	for i := range ranked {
		uid := ranked[i].UID
		first, known := open[uid]
		switch {
		case !known:
			return fmt.Errorf("%w: pod uid %.64q in the ranking was never sent", eviction.ErrInvalidReply, uid)
		case !first:
			return fmt.Errorf("%w: pod uid %.64q is in the ranking twice", eviction.ErrInvalidReply, uid)
		}
		open[uid] = false
		// Copy: a substring in the history would keep the whole message in memory, perhaps megabytes.
		ranked[i].UID, ranked[i].Reason = strings.Clone(uid), strings.Clone(shorten(ranked[i].Reason, maxReasonBytes))
	}
	return nil
}

// checkMeasurement marks a measurement as unknown if its usage of a signal cannot be, and removes other
// figures that cannot be. Usage of a custom signal may be a score, which is at least 0.
func checkMeasurement(m *eviction.Measurement) error {
	for i := range m.Usage {
		u, whole := &m.Usage[i], eviction.AnyNode
		if _, builtin := eviction.Builtin(u.Signal); !builtin {
			whole.Size = 0
		}
		if err := whole.Check(u.Value); err != nil {
			err = fmt.Errorf("%w: usage of %s by pod uid %.64q: %w", eviction.ErrInvalidReply, u.Signal, m.UID, err)
			*m = eviction.Measurement{UID: m.UID, Err: err.Error()}
			return err
		}
		if u.AtMost <= u.Value {
			u.AtMost = 0
		}
	}
	figures := []*eviction.Figure{&m.WorkingSetBytes, &m.Processes, &m.EphemeralStorageUsedBytes}
	for i := range m.Containers {
		c := &m.Containers[i]
		figures = append(figures, &c.WorkingSetBytes, &c.RootfsUsedBytes, &c.RootfsInodesUsed, &c.LogsUsedBytes, &c.LogsInodesUsed)
	}
	for i := range m.Volumes {
		figures = append(figures, &m.Volumes[i].UsedBytes, &m.Volumes[i].InodesUsed)
	}
	var wrong error
	for _, f := range figures {
		if err := eviction.AnyNode.Check(f.Value); err != nil {
			wrong = fmt.Errorf("%w: figures of pod uid %.64q: %w", eviction.ErrInvalidReply, m.UID, err)
			*f = eviction.Figure{}
		}
	}
	m.Err = shorten(m.Err, maxReasonBytes)
	return wrong
}

// checkReclaimed sets impossible amounts to zero. The reply is only logged: whether a step was
// enough is observed on the node.
func checkReclaimed(r eviction.Reclaimed) eviction.Reclaimed {
	r.Bytes, r.Inodes, r.Message = max(0, r.Bytes), max(0, r.Inodes), shorten(r.Message, maxReasonBytes)
	return r
}
