// Package wake decides when to look at the node: it receives plugins' wakes, joins and limits
// them, and schedules passes.
//
// A wake is not a decision: what a pass finds is the business of package loop.
package wake
