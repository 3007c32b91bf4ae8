// Package gc frees a node's disks through the container runtime, by the rules of
// the kubelet: container GC removes dead containers, sandboxes and leftover logs of
// pods, image GC removes images that no container uses.
//
// It does not decide when to run: the host requests it when a filesystem is short of
// space, and the plugin starts the kubelet's periodic image GC, by usage and by the
// images' age, if that is enabled because no kubelet does it.
package gc
