package sdk

import "github.com/evictd/evictd/shared/eviction"

// Plugin is a value to be passed to Serve. A nil field is a capability that it lacks.
type Plugin = eviction.Plugin

// Signals returns entries for Plugin.Signals that offer everything the plugin implements for
// each of the built-in signals.
func Signals(signals ...eviction.Signal) []eviction.SignalSpec {
	specs := make([]eviction.SignalSpec, len(signals))
	for i, s := range signals {
		specs[i].Signal = s
	}
	return specs
}
