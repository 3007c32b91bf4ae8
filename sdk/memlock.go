package sdk

import "golang.org/x/sys/unix"

// lockMemory locks the pages that the process has touched in memory: on a thrashing node its
// text would be paged out, and a call would take 20 times as long. MCL_ONFAULT limits the cost
// to 0.3 MB instead of the whole address space.
//
// Without the right to lock unlimited memory it does nothing: under a limit, a later growth of
// the heap would fail.
func lockMemory() {
	if mayLockAll() {
		_ = unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT)
	}
}

func mayLockAll() bool {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil && limit.Cur == unix.RLIM_INFINITY {
		return true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData // Version 3 has two words of capabilities.
	err := unix.Capget(&header, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
}
