// Package cgroups finds out how the cgroups of pods are named on this node, and
// whether pods that run have theirs where evictd looks for it.
//
// A wrong name makes no noise by itself: every pod is without figures then, and the
// one that goes is a wrong one. So the container runtime and the cgroups themselves
// are asked, and the configuration is held against what they say. It reads and
// tells; who is told what is the business of package host.
package cgroups
