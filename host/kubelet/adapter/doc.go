// Package adapter makes evictd the eviction manager of a kubelet: it adapts the arguments of the
// kubelet's own manager to the public API of package host. To patch a kubelet by hand, copy it.
//
// Its types are the kubelet's except for those of package eviction, which imports it. It decides
// nothing.
package adapter
