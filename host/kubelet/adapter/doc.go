// Package adapter makes evictd the eviction manager of a kubelet: it has what the kubelet
// gives to its own manager on one side and package host, by its public API alone, on the
// other. Who patches a kubelet by hand can copy it.
//
// Its types are the kubelet's but for those of package eviction, which imports it. It
// decides nothing.
package adapter
