package plugindir

import (
	"io/fs"
	"os"
	"syscall"
)

// An ID identifies the content of a path: hardly any replacement of a file, or write to it, leaves
// all fields unchanged. The zero value is a file that cannot be examined.
type ID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

// Identify returns the ID of the file that path leads to, following links.
func Identify(path string) (ID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return ID{}, err
	}
	return IDOf(info), nil
}

// IDOf returns the ID of a file from its info.
func IDOf(info fs.FileInfo) ID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ID{}
	}
	//nolint:unconvert // the widths differ between architectures
	return ID{uint64(st.Dev), st.Ino, st.Size, syscall.TimespecToNsec(st.Mtim), syscall.TimespecToNsec(st.Ctim)}
}
