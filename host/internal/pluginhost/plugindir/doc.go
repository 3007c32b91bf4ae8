// Package plugindir examines the plugin directory: which files are in it, whether only root or the
// host's user could have put them there, whether they are still being written, and when something
// changes. It starts nothing and does not know what plugins say about themselves: that is for
// host/internal/pluginhost/supervisor.
package plugindir
