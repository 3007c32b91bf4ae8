// Package kubelet runs a scenario through the kubelet's own eviction manager,
// unmodified, and tells what it decided. It is the other side of every
// comparison in this module.
//
// The manager picks at random among met thresholds (map order) and among pods
// that rank equal (a sort that is not stable). Nothing it picks changes what
// later passes do. So a pass is made again by copies of the manager, with the
// pods in another order each time, until an outcome is found that was looked
// for; only where pods go for their local-storage limits, in the order of the
// list, the order stays.
package kubelet
