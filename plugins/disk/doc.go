// Package disk is the plugin for nodefs.*, imagefs.* and containerfs.*: it
// reports the layout of the node's filesystems, observes them, measures what pods
// take of them, ranks by the kubelet's rule and frees what is not used any more.
//
// Its figures come from the node's filesystems, the pods' directories and the
// container runtime, or from the kubelet's stats summary if the host serves one;
// then there is nothing to free, since a summary is only read.
//
// It can be served as it is (plugins/builtin) or be a part of a vendor's plugin. The
// plugin is a value: each field can be replaced, cleared or wrapped, and what is
// left goes on to work. WithStep and WithObserver do what would else be copied
// from vendor to vendor: they add a step of reclaim, and have some of the signals
// observed by another plugin. The examples show both, and how a vendor's
// configuration is put beside this one's.
package disk
