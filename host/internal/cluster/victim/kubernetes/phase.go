package kubernetes

// A phase says what the API server has received of an eviction, and what it has yet to receive.
type phase int

const (
	// decided: the pod has not been killed yet.
	decided phase = iota
	// unconfirmed: a former evictd may have stopped the pod, or did so long ago that the pod may
	// run again. abandoned is the same for a pod whose end is no longer awaited.
	unconfirmed
	abandoned
	// unneeded: the pod was being deleted when it was killed, which needs no record.
	unneeded
	// pending: the eviction must be sent to the API server. patching: it is being sent.
	pending
	patching
	// recorded: the API server has the eviction. recordedBefore: it has it from a former evictd,
	// and this one has not killed the pod yet.
	recorded
	recordedBefore
	// declined: the API server needs no record of it, or refuses it permanently.
	declined
)

// A state is the state of an eviction between two events.
type state struct {
	phase phase
	// kills is the number of running calls of Kill for the pod.
	kills int
	// stopping: its containers are being stopped through the runtime. ended: the pod has ended, or
	// its end is no longer awaited.
	stopping, ended bool
	// announcing: its event is being created. announced: that succeeded, or was given up.
	announcing, announced bool
}

// An event changes the state of an eviction.
type event int

const (
	killBegins event = iota
	// killOfDeletedBegins is killBegins for a pod that is being deleted.
	killOfDeletedBegins
	killReturns
	containersStop
	patchBegins
	patchAccepted
	patchDeclined
	announcementBegins
	announcementEnds
	podEnds
	// formerKillConfirmed, formerKillRefuted and podRestarted resolve an unconfirmed eviction: the
	// pod has ended, it has not, or it runs again long after.
	formerKillConfirmed
	formerKillRefuted
	podRestarted
)

// An action is the consequence of an event.
type action int

const (
	none action = iota
	// save writes the eviction to the journal.
	save
	// settle removes it from the journal, and keeps it in memory until a kubelet must have it.
	settle
	// forget removes it from both.
	forget
	// wake starts the writes to the API server that are due.
	wake
)

// next returns the state after an event, and the action to take.
func next(s state, e event) (state, action) {
	switch e {
	case killBegins, killOfDeletedBegins:
		s.kills++
		s.phase = phaseOfKill(s.phase, e == killOfDeletedBegins)
		return s, wake
	case killReturns:
		s.kills--
		return s, none
	case containersStop:
		if s.stopping {
			return s, none
		}
		s.stopping = true
		return s, save
	case patchBegins:
		s.phase = patching
		return s, none
	case patchAccepted:
		s.phase = recorded
		return s, s.step()
	case patchDeclined:
		s.phase = declined
		return s, s.step()
	case announcementBegins:
		s.announcing = true
		return s, none
	case announcementEnds:
		s.announced = true
		return s, s.step()
	case podEnds:
		return afterEnd(s)
	default:
		return judged(s, e)
	}
}

// phaseOfKill returns the phase after the kill of a pod whose eviction was in p.
func phaseOfKill(p phase, deleted bool) phase {
	switch {
	case p == recordedBefore:
		return recorded
	case p == pending, p == patching, p == recorded, p == declined:
		return p
	case deleted:
		return unneeded
	default:
		return pending
	}
}

// afterEnd is next for podEnds: an eviction stays in the journal until it is settled.
func afterEnd(s state) (state, action) {
	switch {
	case s.unconfirmed():
		s.phase = abandoned
		return s, none
	case s.settled() && (s.phase == decided || s.phase == unneeded):
		return s, forget
	}
	s.ended = true
	return s, s.step()
}

// judged is next for an unconfirmed eviction once it is known what a former evictd did. If the kill
// was not finished it is reassessed with the other former kills, unless it is abandoned.
func judged(s state, e event) (state, action) {
	switch {
	case !s.unconfirmed():
	case e == formerKillConfirmed, e == formerKillRefuted && s.ended:
		s.phase, s.ended = pending, s.phase == abandoned
		return s, wake
	case s.phase == abandoned:
		return s, forget
	}
	return s, none
}

// step returns the action after a step: a settled eviction of an ended pod leaves the journal.
func (s state) step() action {
	if s.ended && s.settled() {
		return settle
	}
	return save
}

// unconfirmed reports whether it is unknown what a former evictd did.
func (s state) unconfirmed() bool { return s.phase == unconfirmed || s.phase == abandoned }

// open reports whether the API server has yet to receive the eviction, or to answer.
func (s state) open() bool { return s.phase == pending || s.phase == patching }

// killed reports whether this evictd has killed the pod and the API server has, or will have, the eviction.
func (s state) killed() bool { return s.open() || s.phase == recorded }

// due reports whether to create the event: after the API server's answer to the eviction, which counts
// more, and for a former kill only once the pod is known to be evicted.
func (s state) due() bool {
	switch s.phase {
	case decided, unconfirmed, abandoned, pending, patching:
		return false
	case recordedBefore:
		return s.ended && !s.announced
	default:
		return !s.announced
	}
}

// settled reports whether the API server needs no more writes.
func (s state) settled() bool { return !s.due() && !s.open() }
