// Package rundir owns the run directory: the lock that excludes a second evictd, the place of the
// plugins' sockets, and the journal for a restarted host: kills in flight and when conditions were
// last seen.
//
// The journal is valid for the same boot only. After a reboot no container of a former boot runs,
// and the kubelet too starts without conditions; so entries of another boot are dropped.
package rundir
