// Package rundir owns the run directory: the lock against a second evictd, plugins' sockets, and
// the journal. A restarted host finds in the journal the kills in flight and when conditions were
// last seen.
//
// The journal is valid for the same boot only. After a reboot no container of a former boot runs,
// and the kubelet too starts without conditions; so entries of another boot are dropped.
package rundir
