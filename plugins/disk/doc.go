// Package disk is the plugin for nodefs.*, imagefs.* and containerfs.*: it
// reports the layout of the node's filesystems, observes them, measures the usage
// of pods, ranks by the kubelet's rule and removes what is no longer used.
//
// Its figures come from the node's filesystems, the pods' directories and the
// container runtime, or from the kubelet's stats summary if the host serves one;
// with a summary, which is read-only, it frees nothing.
//
// It can be served as it is (plugins/builtin) or be part of a vendor's plugin. The plugin is a
// value: each field can be replaced, cleared or wrapped, and the rest keeps working. WithStep and
// WithObserver cover what vendors would otherwise copy: they add a reclaim step, and make another
// plugin observe some of the signals. The examples show both, and how to combine a vendor's
// configuration with this one.
package disk
