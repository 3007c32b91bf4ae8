package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// For an error up to countedTimes as many entries are counted as there may be.
const countedTimes = 8

// ReadDir returns what is in the directory at path, in any order, if that are at most most entries. The
// error does not name the directory.
func ReadDir(path string, most int) ([]fs.DirEntry, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, short(err)
	}
	defer dir.Close() //nolint:errcheck // only read
	entries, err := dir.ReadDir(most + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF): // which says that it is empty
		return nil, short(err)
	case len(entries) > most:
		more, _ := dir.Readdirnames(countedTimes * most) // at least as many
		return nil, fmt.Errorf("has at least %d files, want at most %d", len(entries)+len(more), most)
	}
	return entries, nil
}
