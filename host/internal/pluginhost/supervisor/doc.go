// Package supervisor runs the plugin processes of a host: it finds, checks, starts, restarts and
// ends them.
//
// It provides an eviction.Plugin per running process whose calls have deadlines and whose replies
// are checked. It does not decide when to call which of them and knows nothing of thresholds or
// pods: that is host/internal/core/loop.
//
// The goroutine of Run owns the state of the plugins. The controller compares what is wanted
// (files, settings) with what runs and begins the next step for each plugin; slow work runs outside
// that goroutine and comes back as an event. Everything else reads what it publishes: a
// registry.Registry for a pass, a snapshot for the status. It uses plugindir (files),
// shared/sandbox (confinement), client (calls) and registry (who serves what).
//
// The directory is watched. A file is started when it is no longer being written. One that replaces
// another is started beside the serving process, and takes over between two passes once it has
// described itself, accepted its configuration and observed; if it fails the former process keeps
// serving. Removing a file disables its signals.
//
// NAME.sock in the directory is a plugin that another program has started: it is connected to, never
// started or killed, and the end of its one connection counts as its exit.
//
// An embedding program may run plugins in its own process (InProcess): they are called with the
// same deadlines and checks, share no memory with the host, and cannot be ended.
//
// Every wait for a plugin has a deadline, and nothing that a plugin writes reaches go-plugin's own
// parsers unchecked: those of v1.8.0 panic on a log line whose message is not a string, and on an
// unexpected certificate.
package supervisor
