// Package observe knows what the signals of the node read: it asks the observers in order
// and more than one where that is worth it, remembers who does not respond, how the
// filesystems are laid out and what custom signals are, and reads by itself (package
// fallback) what no plugin observes.
//
// It concludes nothing from a figure: that is package policy, called by package loop.
package observe
