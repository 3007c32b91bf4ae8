// Package rundir owns the run directory: the lock that keeps a second evictd
// away, the place of the plugins' sockets, and the journal of what a restarted
// host must know: kills in flight and when conditions were last seen.
//
// The journal is for the same boot only. After a reboot no container of a former
// boot runs, and the kubelet too starts with no conditions; so what another boot
// wrote is dropped.
package rundir
