// Package kubelet runs a scenario through the kubelet's own eviction manager, unmodified, and
// returns its decisions. It is the reference for every comparison in this module.
//
// The manager picks at random among met thresholds (map order) and among pods of equal rank (an
// unstable sort). Its choice does not affect later passes. So copies of the manager repeat a pass,
// with the pods in another order each time, until a wanted outcome is found; only where pods are
// evicted for their local storage limits, in the order of the list, the order stays.
package kubelet
