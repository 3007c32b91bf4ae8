// Package startup decides how an attempt to start a plugin goes on. It is pure: the supervisor
// tells it what happens and does what follows.
package startup

// A Phase is how far an attempt to start a plugin has come.
type Phase int

// The phases, in their order.
const (
	// Completing waits for the file to be complete.
	Completing Phase = iota
	// Ready waits for its turn to be launched.
	Ready
	Launching
	// Trial has a process that can serve. At the host's start it waits for others.
	Trial
	// Configuring sends the process another configuration than it was started with.
	Configuring
	// Ending ends a process that does not come to serve.
	Ending
	// Over leaves nothing of the attempt but the process that serves.
	Over
)

var phaseNames = [...]string{"completing", "ready", "launching", "trial", "configuring", "ending", "over"}

// String implements fmt.Stringer.
func (p Phase) String() string { return phaseNames[p] }

// A Turn is one of the starts that are made at a time.
type Turn int

// The turns, in their order.
const (
	Waits Turn = iota
	// Holds keeps others waiting, Passed no longer does.
	Holds
	Passed
)

var turnNames = [...]string{"waits", "holds", "passed"}

// String implements fmt.Stringer.
func (t Turn) String() string { return turnNames[t] }

// A State is an attempt between two events. The zero value is its begin.
type State struct {
	Phase Phase
	Turn  Turn
	// Stale: another file, other settings, or no process at all is wanted.
	Stale bool
}

// An Event happens to an attempt.
type Event int

// The events. After BecomesStale another file, other settings, or no process at all is wanted.
const (
	TurnBegins Event = iota
	TurnEnds
	FileCompletes
	LaunchBegins
	LaunchSucceeds
	ConfigureBegins
	ConfigureSucceeds
	// ServiceBegins comes with the process in the registry, ServiceDenied with one that conflicts
	// with another plugin or refuses its configuration.
	ServiceBegins
	ServiceDenied
	ProcessExits
	BecomesStale
	// Failed comes when nothing is left of the attempt.
	Failed
)

var eventNames = [...]string{
	"turnBegins", "turnEnds", "fileCompletes", "launchBegins", "launchSucceeds", "configureBegins", "configureSucceeds", "serviceBegins",
	"serviceDenied", "processExits", "becomesStale", "failed",
}

// String implements fmt.Stringer.
func (e Event) String() string { return eventNames[e] }

// An Action follows from an event.
type Action int

// The actions.
const (
	None Action = iota
	// Cancel ends the work beside the loop, whose result ends the attempt.
	Cancel
	// Admit puts the process into service, as soon as that can be.
	Admit
	// Discard ends the process.
	Discard
	// Conclude ends the attempt.
	Conclude
)

var actionNames = [...]string{"none", "cancel", "admit", "discard", "conclude"}

// String implements fmt.Stringer.
func (a Action) String() string { return actionNames[a] }

// Next returns the state after an event, and what is to be done.
func Next(s State, e Event) (State, Action) {
	switch e {
	case TurnBegins:
		s.Turn = Holds
	case TurnEnds:
		s.Turn = Passed
	case FileCompletes:
		if s.Stale {
			s.Phase = Over
			return s, Conclude
		}
		s.Phase = Ready
	case LaunchBegins:
		s.Phase = Launching
	case ConfigureBegins:
		s.Phase = Configuring
	case LaunchSucceeds, ConfigureSucceeds:
		s.Turn = Passed
		if s.Stale {
			s.Phase = Ending
			return s, Discard
		}
		s.Phase = Trial
		return s, Admit
	case ServiceDenied:
		s.Phase = Ending
		return s, Discard
	case ProcessExits:
		if s.Phase == Trial { // else the work that is under way fails
			s.Phase = Ending
			return s, Discard
		}
	case BecomesStale:
		return outdate(s)
	case ServiceBegins:
		s.Phase = Over
	case Failed:
		s.Phase = Over
		return s, Conclude
	}
	return s, None
}

// outdate is Next of BecomesStale.
func outdate(s State) (State, Action) {
	s.Stale = true
	switch s.Phase {
	case Trial:
		s.Phase = Ending
		return s, Discard
	case Ready:
		s.Phase = Over
		return s, Conclude
	case Completing, Launching, Configuring, Ending, Over:
	}
	return s, Cancel
}
