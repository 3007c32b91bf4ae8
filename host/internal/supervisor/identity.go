package supervisor

import (
	"io/fs"
	"os"
	"syscall"
)

// A fileID tells one content of a path from the next: hardly anything that
// replaces a file, or writes into it, leaves all of this as it was. The zero value
// is a file that cannot be looked at.
type fileID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

// identify looks at the file that path leads to, through links.
func identify(path string) (fileID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}, err
	}
	return fileIDOf(info), nil
}

func fileIDOf(info fs.FileInfo) fileID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}
	}
	//nolint:unconvert // the widths differ between architectures
	return fileID{uint64(st.Dev), st.Ino, st.Size, syscall.TimespecToNsec(st.Mtim), syscall.TimespecToNsec(st.Ctim)}
}

// sameFile reports whether both are the same file or directory, whatever is in
// it.
func (a fileID) sameFile(b fileID) bool { return a.dev == b.dev && a.ino == b.ino }
