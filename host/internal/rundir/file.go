package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxFileBytes is the most that is read of a journal file, and written to one.
const maxFileBytes = 256 << 10

// write replaces the file at path as a whole: whoever reads it finds the old or
// the new content, also after a crash when durable is set. On a full disk one of
// the spare files takes the content.
func write(path string, v any, durable bool, from *spares) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(data) > maxFileBytes {
		return fmt.Errorf("has %d bytes, want at most %d", len(data), maxFileBytes)
	}
	data = append(data, '\n')
	n := note{path: path, tmp: path + tmpSuffix, data: data, durable: durable}
	err = n.write(os.O_CREATE|os.O_TRUNC, os.Rename)
	if full(err) && from.take(n.tmp) {
		err = n.write(0, from.replace)
	}
	return err
}

// note is content on its way to a file.
type note struct {
	path, tmp string
	data      []byte
	durable   bool
}

// write puts the content into the temporary file and has replace put that in the
// place of the file.
func (n note) write(flags int, replace func(tmp, path string) error) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, remove(n.tmp))
		}
	}()
	f, err := os.OpenFile(n.tmp, os.O_WRONLY|flags|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(n.data)
	if err == nil {
		err = f.Truncate(int64(len(n.data))) // what a spare file has beyond
	}
	if err == nil && n.durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := replace(n.tmp, n.path); err != nil {
		return err
	}
	if n.durable {
		return syncDir(filepath.Dir(n.path))
	}
	return nil
}

// remove removes a file that may be gone.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// load reads a journal file. Anything but a small regular file is refused.
func load(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read.
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("has more than %d bytes", maxFileBytes)
	}
	return data, err
}
