package plugindir

import (
	"io/fs"
	"os"
	"syscall"
)

// An ID tells one content of a path from the next: hardly anything that
// replaces a file, or writes into it, leaves all of this as it was. The zero value
// is a file that cannot be looked at.
type ID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

// Identify looks at the file that path leads to, through links.
func Identify(path string) (ID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return ID{}, err
	}
	return IDOf(info), nil
}

// IDOf returns the identity of a file that was looked at.
func IDOf(info fs.FileInfo) ID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ID{}
	}
	//nolint:unconvert // the widths differ between architectures
	return ID{uint64(st.Dev), st.Ino, st.Size, syscall.TimespecToNsec(st.Mtim), syscall.TimespecToNsec(st.Ctim)}
}
