// Package sdk has what the author of an evictd plugin needs: it serves the plugin,
// ranks by comparators, decodes the configuration and logs.
//
// A plugin is a value with the capabilities that it has; a nil field is a
// capability that it lacks:
//
//	func main() {
//		sdk.Serve(sdk.Plugin{
//			Name:    "oldest",
//			Signals: sdk.Signals(eviction.MemoryAvailable),
//			Ranker:  sdk.RankBy(byStartTime),
//		})
//	}
//
// The contract is in package eviction, which this package only serves; package eviction/rank has
// the kubelet's orders, and package sdktest the tests
// that every plugin has to pass. Put the executable into the host's plugin directory and it takes
// over what it offers. The command "evictctl plugins new" writes a module to start from, and
// docs/plugin-authors.md leads from an empty directory to a pod that a plugin has ranked.
//
// This package decides nothing about pods, starts no goroutine for a call, and has
// no state that a plugin could share with another.
//
// # Capabilities
//
// [eviction.Configurer] receives the node's facts and the plugin's configuration.
// [eviction.Observer] reads the node's figures in every pass. [eviction.Measurer] reads those of
// pods when a threshold is met, [eviction.Ranker] then decides which pod is evicted first, and
// [eviction.Reclaimer] frees resources before a pod is evicted. [eviction.Watcher] waits for the
// kernel, so that a pass begins at once. [eviction.Meter] has metrics of the plugin, which the host
// shows among its own. The host uses each capability separately: a plugin that
// only ranks gets the figures that other plugins have measured.
//
// If a signal's plugin lacks a capability or fails, the next in line takes over: a
// custom plugin, then the built-in one, then the host itself.
//
// # Units
//
// All amounts are int64 in the base unit of their signal: bytes, inodes or
// processes, never KiB and never percent. A custom signal has its unit in its
// [eviction.Definition]. Available falls towards zero as pressure grows, and may be
// below zero. A threshold has an amount or a fraction of the capacity;
// [eviction.Threshold.Of] makes an amount of either. Times are wall time. Fields
// whose unit is not that of a signal carry it in their name.
//
// # No figure
//
// A figure may be zero, absent or unknown, and these differ:
//
//   - Zero is a figure. [eviction.Observed] with Available 0 is a node that has
//     nothing left.
//   - [eviction.Absent] means that this node has no such figure. The threshold is
//     not met, and its timers are reset.
//   - [eviction.Unknown] means that a reading failed, was late or was left out. The
//     host concludes nothing from it and keeps all timers and conditions.
//
// For pods, [eviction.NoStats] ranks before all others, as in the kubelet, and
// [eviction.MeasurementUnknown] makes the host use the last figure that it knows.
// [eviction.Figure] has an OK for figures that may be missing one by one.
//
// # Errors
//
// An error from a method means that the plugin has no answer: the host logs the text (at most 4 KiB
// of it) and turns to the next in line. It does not restart the plugin. If only some signals or
// pods have no answer, answer the others and set the reason in the Err of these. An error of
// Configure leaves the former configuration in force, so check everything first and change last.
//
// A panic ends the process, which counts as a crash: the host restarts it after 0.2 s,
// later after up to 30 s, and after five crashes in ten minutes waits for ten minutes.
// Exit only if the plugin cannot continue at all.
//
// # Concurrency
//
// Every method may be called while any method, including itself, is running: calls of a pass that
// the host has given up may still run when the next pass begins, and Configure can be called at any
// time. Data that methods share must be safe for this; the simplest way is an atomic.Pointer to an
// immutable value. A request belongs to the call: do not change it, and do not keep it. The
// functions emit, wake and progress may be called from any goroutine until the method returns.
//
// # Deadlines
//
// Each call's context has the host's deadline: 1 s for Observe and Rank, 2 s for Configure, 5 s for
// Measure, 0.2 s for Metrics. The host does not wait longer, and after three timeouts in a row ends the process, so
// whatever may hang (a filesystem, a socket) must be bound to the context, or be in a goroutine
// that is left behind. Emit each pod's answer in Measure as soon as it is known: answers emitted
// before the deadline count. Reclaim may take ten minutes as long as it calls progress at least
// every 30 s. Watch runs until its context ends.
//
// Under a hard threshold all custom plugins together have less time for a decision: 1 s for memory
// and process ids, 30 s otherwise. A plugin that uses it up is asked last for ten minutes.
//
// Observe is called in every pass, up to twenty times a second, and its cost must not
// depend on the number of pods. Rank does no I/O. Aim for a millisecond.
//
// # Standard output and log
//
// Standard output belongs to the handshake with the host. Importing this
// package moves file descriptor 1 to standard error when the host is the
// parent, so prints end up in the log. Only an init function that runs before
// this package's (of a package that does not depend on it and sorts before it)
// can still print too early.
//
// [Logger], slog's default logger and package log write records that appear in the
// host's log with their level and attributes.
//
// # Notes on Linux
//
//   - Open files of /proc and of cgroups once and read them with pread: it is three
//     times as fast. Reading a removed cgroup returns ENODEV: the pod has ended,
//     which is not an error.
//   - The root cgroup of cgroup v2 has no memory.current. Package nodefs, which the
//     built-in plugins read with, knows both versions.
//   - Resolve paths below [eviction.NodeFacts.RootDir]: in a container the node's root
//     is not "/".
//   - statfs and stat of a network filesystem can hang for ever, and no context ends
//     them.
//   - A pressure trigger (PSI) needs CAP_SYS_RESOURCE unless its window is a multiple
//     of two seconds, and cgroup v2 has no event for "less than so much is left": poll
//     more often the nearer the threshold is. Cgroup v1 has one, which also fires
//     without need: a wake only makes the host look.
//   - CLOCK_BOOTTIME continues during suspend and is never set back: set it as BootNanos
//     of an [eviction.Observation] if the plugin takes the reading itself.
//   - The process runs with a minimal environment, without PATH, and with the rights
//     that the host's configuration gives it.
package sdk
