// Package stack runs a private containerd with real pods for the demo and for
// tests that need containers, and removes every trace of it afterwards.
//
// It is not a kubelet: it starts a pod once from its manifest, with the kubelet's
// names and cgroups, and never restarts, probes or garbage-collects one.
//
// Everything that a stack starts runs in one cgroup subtree, and containerd has a private mount
// namespace. To remove a stack, it kills the processes in the subtree (the mounts end with the
// namespace) and removes the cgroups and one directory. A record below /run names them, so that the
// next Start removes what a killed owner left behind.
package stack
