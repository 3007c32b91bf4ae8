// Package disk is the plugin for nodefs.*, imagefs.* and containerfs.*: it
// reports the layout of the node's filesystems, observes and measures them,
// ranks by the kubelet's rule and names the steps of node-level reclaim. Its
// figures come from the kubelet's stats summary, which the host serves on a
// private socket; it has no source of its own, and nothing to free.
//
// It can be served as it is (cmd/disk) or taken apart: the plugin is a value, and
// a vendor may replace or clear a field of it.
package disk
