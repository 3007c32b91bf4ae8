// Package plugindir examines the plugin directory: its files, who may have written them, and when
// they change. It reports whether only root or the host's user could have put a file there, and
// whether it is still being written. It starts nothing and does not know what plugins say about
// themselves: that is for host/internal/pluginhost/supervisor.
package plugindir
