// Package observe observes the signals of the node through plugins, or through the host where no
// plugin does. It tracks unresponsive plugins, the layout of the filesystems and the definitions
// of custom signals, and asks more than one observer where that is worthwhile.
//
// It draws no conclusions from a figure: that is package policy, called by package loop.
package observe
