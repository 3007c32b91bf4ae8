// Package startup decides the steps of an attempt to start a plugin. It is pure: the supervisor
// passes it events and performs the actions.
package startup

// A Phase is the progress of an attempt to start a plugin.
type Phase int

// The phases, in their order.
const (
	// Completing waits for the file to be complete.
	Completing Phase = iota
	// Ready waits for its turn to be launched.
	Ready
	Launching
	// Launched has a process that can serve.
	Launched
	// Configuring sends the process a newer configuration than it was started with.
	Configuring
	// Ending ends a process that will not serve.
	Ending
	// Over: the attempt is finished.
	Over
)

// A Turn is the attempt's place among the starts that are staggered.
type Turn int

// The turns, in their order.
const (
	Waits Turn = iota
	// Holds occupies a start slot, Passed no longer does.
	Holds
	Passed
)

// A State is the state of an attempt between two events. The zero value is the initial one.
type State struct {
	Phase Phase
	Turn  Turn
	// Stale: the file or the settings have changed, or no process is wanted.
	Stale bool
}

// An Event changes the state of an attempt.
type Event int

// The events. BecomesStale: the file or the settings have changed, or no process is wanted.
const (
	TurnBegins Event = iota
	TurnEnds
	FileCompletes
	LaunchBegins
	LaunchSucceeds
	ConfigureBegins
	ConfigureSucceeds
	// ServiceBegins when the process enters the registry, ServiceDenied if it conflicts with
	// another plugin or refuses its configuration.
	ServiceBegins
	ServiceDenied
	BecomesStale
	// Failed when nothing is left of the attempt.
	Failed
)

// An Action is the consequence of an event.
type Action int

// The actions.
const (
	None Action = iota
	// Cancel cancels the work outside the loop, whose result ends the attempt.
	Cancel
	// Admit puts the process into service.
	Admit
	// Discard ends the process.
	Discard
	// Conclude ends the attempt.
	Conclude
)

// Next returns the state after an event, and the action to perform.
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
		s.Phase = Launched
		return s, Admit
	case ServiceDenied:
		s.Phase = Ending
		return s, Discard
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

// outdate is Next for BecomesStale.
func outdate(s State) (State, Action) {
	s.Stale = true
	switch s.Phase {
	case Launched:
		s.Phase = Ending
		return s, Discard
	case Ready:
		s.Phase = Over
		return s, Conclude
	case Completing, Launching, Configuring, Ending, Over:
	}
	return s, Cancel
}
