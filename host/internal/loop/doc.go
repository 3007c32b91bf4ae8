// Package loop is the synchronize loop of the eviction manager: one goroutine
// that observes through plugins, lets package policy decide, has one pod at a
// time killed and keeps what it knows of conditions, grace periods and victims.
//
// It owns the order of things and the state, and nothing else: what a threshold
// means is package policy, how a plugin process lives is package supervisor,
// how a pod dies is package victim. Kills, clean-up waits, node-level reclaim and
// the measurement of local storage run beside the loop and report back as values,
// so that a slow runtime or disk never stops it from observing. Only a pass that
// somebody asked for (Synchronize) waits for all that it began.
package loop
