// Package gc frees a node's disks through the container runtime, by the rules of
// the kubelet: container GC removes dead containers and sandboxes and what is left
// of pods' logs, image GC removes images that no container uses.
//
// It does not decide when: the host asks for it when a filesystem is short, and the
// plugin has the kubelet's periodic image GC run, by percentages and by an image's
// age, where it is switched on because no kubelet does it.
package gc
