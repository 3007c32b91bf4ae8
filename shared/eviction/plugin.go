package eviction

// Plugin is a set of capabilities for one or more signals; a nil field is a
// capability that the plugin lacks. The SDK serves such a value; the host holds
// one whose fields are calls to the plugin's process.
//
// Every method may be called concurrently with every other one. A method gets a context with a
// deadline and must return soon after the context ends; the host does not wait for it longer.
type Plugin struct {
	// Name appears in logs; the host identifies the plugin by its file name.
	Name string
	// Version is the plugin's own version, free text.
	Version string
	// Signals are the signals served, each with the capabilities offered for it.
	Signals []SignalSpec
	// WantLabels and WantAnnotations are the keys that the plugin wants in pod rows; the
	// host sends no others.
	WantLabels      []string
	WantAnnotations []string
	// Description says in a sentence what the plugin is for, Vendor who answers for it, Licence is an SPDX expression.
	// All are free text, and optional.
	Description, Vendor, Licence string
	// SignalsFor, if not nil, returns Signals for a configuration, as Configurer gets it. With another configuration
	// the host starts another process, which takes over. A host, which must have FeatureSignalsFromConfig, has
	// SignalsFromConfig for it.
	SignalsFor        func(config []byte) ([]SignalSpec, error)
	SignalsFromConfig bool
	// OwnsLayout: Observe also reports the filesystem layout.
	OwnsLayout bool

	// CheckHost may return an error to refuse a host that lacks a feature the plugin needs.
	CheckHost func(Host) error

	Configurer Configurer
	Observer   Observer
	Measurer   Measurer
	Watcher    Watcher
	Ranker     Ranker
	Reclaimer  Reclaimer
	Meter      Meter
}

// SignalSpec describes what a plugin offers for one signal.
type SignalSpec struct {
	Signal Signal
	// Capabilities limits what the plugin offers for this signal. Zero means everything
	// that it implements.
	Capabilities Capability
	// Definition is required for a custom signal and must be nil for a built-in one.
	Definition *Definition
	// ReclaimSteps are the node-level reclaim steps of this signal, in the order
	// in which they run.
	ReclaimSteps []ReclaimStep
}

// Host describes the host in a Describe call.
type Host struct {
	// Version is the host's version, for messages.
	Version string
	// Features are the names of the optional parts of the contract that the host supports.
	// A plugin that needs one should refuse a host that lacks it.
	Features []string
	// Config has the bytes of ConfigureRequest in the second Describe call, of a plugin with SignalsFromConfig.
	Config []byte
}

// The optional parts of the contract: Definition.Candidates, Host.Config.
const (
	FeatureCandidateScope    = "candidate-scope"
	FeatureSignalsFromConfig = "signals-from-config"
)

// Features returns the names of all optional parts of the contract in this version of the package.
func Features() []string { return []string{FeatureCandidateScope, FeatureSignalsFromConfig} }
