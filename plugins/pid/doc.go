// Package pid is the plugin for pid.available: it observes it, measures the
// processes of pods and ranks by the kubelet's rule. Its figures come from the
// kubelet's stats summary, which the host serves on a private socket; it has no
// source of its own.
//
// It can be served as it is (cmd/pid) or taken apart: the plugin is a value, and
// a vendor may replace or clear a field of it.
package pid
