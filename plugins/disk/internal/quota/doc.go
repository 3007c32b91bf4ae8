// Package quota asks the filesystem for the usage of a directory that is a quota
// project (XFS, ext4): three system calls instead of a walk.
//
// The kubelet makes emptyDir volumes quota projects if the feature
// LocalStorageCapacityIsolationFSQuotaMonitoring is on, the filesystem counts projects and the pod
// runs in a user namespace. The last condition makes the figure trustworthy: outside of a user
// namespace the owner of a file may put it into another project, so a pod could hide its usage or
// charge it to another pod. A figure is therefore trusted only if
//
//   - the directory is registered in /etc/projects, where the kubelet lists its
//     projects and no pod can write, and is the only one with its number,
//   - the directory has that number (not zero, which is the default of all
//     files), and passes it on to new files in it.
//
// An administrator who registers directories by hand asserts that their pods
// cannot change project numbers.
//
// The package sets no quota, and is an optimization only: a walk gives the same.
package quota
