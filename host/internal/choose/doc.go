// Package choose finds out which pod is to go for a threshold: it lists the pods, has
// those measured that may go, and has them ranked, by plugins first and by the host where
// they fail. An eviction never waits for a plugin to be well.
//
// It evicts no pod and knows nothing of former victims beyond its input: it may run
// in the background.
package choose
