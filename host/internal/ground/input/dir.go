package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// countedTimes bounds the entries counted for an error, in multiples of the limit.
const countedTimes = 8

// ReadDir returns the entries of the directory at path, unsorted, if there are at most most. The
// error does not name the directory.
func ReadDir(path string, most int) ([]fs.DirEntry, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, short(err)
	}
	defer dir.Close() //nolint:errcheck // only read
	entries, err := dir.ReadDir(most + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF): // io.EOF means that it is empty
		return nil, short(err)
	case len(entries) > most:
		more, _ := dir.Readdirnames(countedTimes * most) // a lower bound
		return nil, fmt.Errorf("has at least %d files, want at most %d", len(entries)+len(more), most)
	}
	return entries, nil
}
