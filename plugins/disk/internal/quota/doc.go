// Package quota asks the filesystem what a directory takes, where the directory
// is a quota project of its own (XFS, ext4): three system calls instead of a walk.
//
// The kubelet makes emptyDir volumes such projects when the feature
// LocalStorageCapacityIsolationFSQuotaMonitoring is on, the filesystem counts
// projects and the pod runs in a user namespace. The last condition is what makes
// the figure worth something: outside of a user namespace the owner of a file may
// put it into another project, and a pod would so hide what it uses, or charge it
// to another. A figure is therefore trusted only if
//
//   - the directory is registered in /etc/projects, where the kubelet lists what
//     it has made and no pod can write, alone under its number,
//   - the directory has that very number (zero, which all files have to begin
//     with, is none), and hands it on to what is made in it.
//
// Who registers directories by hand says with it that their pods cannot change
// project numbers.
//
// It sets no quota, and it is not needed anywhere: the walk tells the same.
package quota
