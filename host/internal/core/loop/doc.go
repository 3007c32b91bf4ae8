// Package loop runs the eviction manager: its one goroutine owns the state and the order of a
// pass. It observes the node (package observe), assesses it (package policy), chooses a pod
// (package choose) and has one pod at a time killed (package victim), when package wake schedules
// it.
//
// It owns the order of these steps and the state between passes, and nothing else. Slow work is an
// action: it runs without access to that state, within a pass that a caller waits for (Synchronize)
// or else in the background, and its result is applied in the loop, so that a slow runtime or disk
// never stops the loop from observing.
package loop
