// Package sdk is what the author of an evictd plugin needs: serving a plugin,
// ranking by comparators, reading its configuration, logging.
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
// The contract is in package eviction, which this package only serves; package
// eviction/rank has the kubelet's orders, package summary the kubelet's stats
// summary, and package sdktest the tests that every plugin has to pass. Put the
// executable into the host's plugin directory and it takes over what it offers.
// The command "evictd plugins new" writes a module to start from, and
// docs/plugin-authors.md goes all the way from an empty directory to a pod that a
// plugin has ranked.
//
// This package decides nothing about pods, starts no goroutine for a call, and has
// no state that a plugin could share with another.
//
// # Capabilities
//
// [eviction.Configurer] receives the node's facts and the plugin's configuration.
// [eviction.Observer] reads the node's figures in every pass. [eviction.Measurer]
// reads those of pods when a threshold is met, [eviction.Ranker] then says who goes
// first, and [eviction.Reclaimer] reclaims something before a pod has to go.
// [eviction.Watcher] waits for the kernel, so that a pass begins at once. The host
// takes each for itself: a plugin that only ranks gets the figures that others have
// measured.
//
// What a signal's plugin lacks, or fails to do, falls to the next in line: a custom
// plugin, then the built-in one, then the host itself.
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
// There are three ways not to have one, and they are not the same:
//
//   - Zero is a figure. [eviction.Observed] with Available 0 is a node that has
//     nothing left.
//   - [eviction.Absent] is the source saying that this node has no such figure. The
//     threshold is not met, and its timers are forgotten.
//   - [eviction.Unknown] is a reading that failed, is late or was left out. Nothing
//     is concluded from it, and all timers and conditions stay as they are.
//
// For pods, [eviction.NoStats] ranks before all others, as in the kubelet, and
// [eviction.MeasurementUnknown] has the host use the last figure that it knows.
// [eviction.Figure] has an OK for figures that may be missing one by one.
//
// # Errors
//
// An error from a method is the plugin's answer that there is none: the host logs
// its text, of which the first 4 KiB travel, and goes to the next in line. It does
// not restart the plugin for it. If only some signals or pods have no answer, answer
// the others and give the reason in the Err of those. Errors of Configure leave the
// former configuration in force, so check all of it first and change last.
//
// A panic ends the process, which counts as a crash: the host starts it again after
// 0.2 s, later after up to 30 s, and after five crashes in ten minutes leaves it
// alone for ten. Exit only when the plugin cannot go on at all.
//
// # Concurrency
//
// Every method may be called while any other one runs, and while itself runs: a pass
// that the host has given up may still be at work when the next one begins, and
// Configure can come at any time. What methods share must be safe for that; an
// atomic.Pointer to a value that is never changed is the simplest. A request belongs
// to the call: do not change it, and do not keep it. The functions emit, wake and
// progress may be called from any goroutine until the method returns.
//
// # Deadlines
//
// Each call's context has the host's deadline: 1 s for Observe and Rank, 2 s for
// Configure, 5 s for Measure. The host does not wait longer, and after three timeouts
// in a row ends the process, so whatever may hang (a filesystem, a socket) must be
// bound to the context, or be in a goroutine that is left behind. Measure gives each
// pod's answer as soon as it has it: what was emitted before the deadline counts.
// Reclaim may take ten minutes as long as it calls progress at least every 30 s. Watch
// runs until its context ends.
//
// Observe is called in every pass, of which there may be twenty a second, and its cost
// must not depend on the number of pods. Rank does no I/O. Aim for a millisecond.
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
//     times as fast. A cgroup that is gone answers ENODEV, which is a pod that has
//     ended and not an error.
//   - The root cgroup of cgroup v2 has no memory.current. Package nodefs, which the
//     built-in plugins read with, knows both versions.
//   - Paths are below [eviction.NodeFacts.RootDir]: in a container the node is seen
//     somewhere else than at "/".
//   - statfs and stat of a network filesystem can hang for ever, and no context ends
//     them.
//   - A pressure trigger (PSI) needs CAP_SYS_RESOURCE unless its window is a multiple
//     of two seconds, and cgroup v2 has no event for "less than so much is left": poll
//     more often the nearer the threshold is. Cgroup v1 has one, which also fires
//     without need: a wake is a hint to look and not a decision.
//   - CLOCK_BOOTTIME goes on during suspend and is never set back: give it in
//     [eviction.Observation] as BootNanos where the reading is your own.
//   - The process runs with a minimal environment, without PATH, and with the rights
//     that the host's configuration gives it.
package sdk
