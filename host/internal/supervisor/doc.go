// Package supervisor keeps the plugin processes of a host: it finds them,
// checks who may have written them, starts them, keeps them running, tells who
// is in charge of which signal, and ends them with the host.
//
// What it hands out is an eviction.Plugin per running process whose calls have
// deadlines and whose replies were checked. It does not decide when to call
// which of them and knows nothing of thresholds or pods: that is
// host/internal/loop.
//
// One goroutine, Run's, owns what is known of the plugins. It compares what is wanted
// (files, settings) with what runs and begins the next step for each plugin
// (controller); what takes time runs beside it and comes back as an event. All
// else reads what it publishes: a registry.Registry for a pass, a snapshot for the
// status. Below it are plugindir (files), shared/sandbox (confinement), client (calls) and
// registry (who serves what).
//
// The directory is watched. A file is started when it is no longer written. One
// that replaces another is started beside the process that serves, and takes over
// between two passes once it has described itself, taken its configuration and
// observed; what fails leaves the former process alone. A file that is
// gone switches its signals off.
//
// An embedding program may have its plugins in its own process (InProcess): they
// are called with the same deadlines and checks, share no memory with the host,
// and cannot be ended.
//
// A plugin is never waited for without a deadline, and nothing that a plugin
// writes reaches go-plugin's own parsers unchecked: those of v1.8.0 panic on a
// log line whose message is not a string, and on a certificate that none
// asked for.
package supervisor
