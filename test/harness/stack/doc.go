// Package stack runs a private containerd with real pods for the demo and for
// tests that need containers, and removes every trace of it afterwards.
//
// It is not a kubelet: it starts a pod once from its manifest, as the kubelet
// would name and place it, and never restarts, probes or garbage-collects one.
//
// Everything that a stack starts lives in one cgroup subtree, and containerd
// has a mount namespace of its own. Removing a stack is therefore: kill what is
// in the subtree (the mounts die with the namespace), remove the cgroups, remove
// one directory. A record below /run says where they are, so that the next Start
// removes what a killed owner left behind.
package stack
