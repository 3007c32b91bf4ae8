package sdk

import "github.com/evictd/evictd/shared/eviction"

// A Plugin is served by Serve: a value whose nil fields are capabilities that it lacks.
type Plugin = eviction.Plugin

// Signals lists built-in signals for Plugin.Signals, each with all that the
// plugin can do.
func Signals(signals ...eviction.Signal) []eviction.SignalSpec {
	specs := make([]eviction.SignalSpec, len(signals))
	for i, s := range signals {
		specs[i].Signal = s
	}
	return specs
}
