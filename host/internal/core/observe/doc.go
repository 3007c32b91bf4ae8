// Package observe observes the signals of the node: it asks observers in order, and more than one
// where that is worthwhile, tracks unresponsive plugins, the layout of the filesystems and the
// definitions of custom signals, and reads by itself (package fallback) what no plugin observes.
//
// It draws no conclusions from a figure: that is package policy, called by package loop.
package observe
