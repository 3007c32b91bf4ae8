// Package plugindir looks at the directory of the plugins: which files are there,
// whether only root or the host's user could have put them there, whether
// they are still being written, and when something changes. It starts nothing and
// knows nothing of what the files say of themselves: that is for
// host/internal/supervisor.
package plugindir
