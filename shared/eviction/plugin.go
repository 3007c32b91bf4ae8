package eviction

// A Plugin is a set of capabilities for one or more signals. A nil field is a
// capability that the plugin lacks. The SDK serves such a value; the host holds
// one whose fields are calls to the plugin's process.
//
// Every method may be called concurrently with every other one. A method gets
// a context with a deadline and must return soon after it ends; the host does
// not wait for a method that does not.
type Plugin struct {
	// Name identifies the plugin in logs; the host knows it by its file name.
	Name string
	// Version is the plugin's own version, free text.
	Version string
	// Signals are the signals served, each with what is offered for it.
	Signals []SignalSpec
	// WantLabels and WantAnnotations are the keys whose values the plugin wants
	// to see in pod rows; others are not sent.
	WantLabels      []string
	WantAnnotations []string
	// OwnsLayout says that Observe also reports the filesystem layout.
	OwnsLayout bool

	// CheckHost may refuse a host that lacks something the plugin needs.
	CheckHost func(Host) error

	Configurer Configurer
	Observer   Observer
	Measurer   Measurer
	Watcher    Watcher
	Ranker     Ranker
	Reclaimer  Reclaimer
}

// SignalSpec describes what a plugin offers for one signal.
type SignalSpec struct {
	Signal Signal
	// Capabilities narrows what is offered for this signal. Zero means all that
	// the plugin has.
	Capabilities Capability
	// Definition is required for a custom signal and absent for a built-in one.
	Definition *Definition
	// ReclaimSteps are the node-level reclaim steps of this signal, in the order
	// in which they run.
	ReclaimSteps []ReclaimStep
}

// Host describes the host to a plugin that is asked to describe itself.
type Host struct {
	// Version is the host's version, for messages.
	Version string
	// Features are names of optional parts of the contract that the host has.
	// A plugin that needs one refuses a host that lacks it.
	Features []string
}
