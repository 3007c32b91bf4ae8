// Package loop is the synchronize loop of the eviction manager: one goroutine
// that has the node observed (package observe), lets package policy decide, has a pod
// chosen (package choose) and one at a time killed (package victim), when package wake
// says that it is time.
//
// It owns the order of things and the state between passes, and nothing else. What takes
// long is an action: it runs without the state, within a pass that a caller waits for
// (Synchronize) or else in the background, and its conclusions are drawn in the loop, so
// that a slow runtime or disk never stops it from observing.
package loop
