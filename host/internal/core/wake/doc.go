// Package wake says when to look at the node: it keeps the streams open on which plugins
// wake the host, joins and limits their wakes, and has the schedule of passes.
//
// A wake is not a decision: what a pass finds is the business of package loop.
package wake
