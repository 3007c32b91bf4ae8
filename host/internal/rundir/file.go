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
// the new content, also after a crash when durable is set. On a full disk a spare
// file takes the content.
func (d *Dir) write(path string, v any, durable bool) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(data) > maxFileBytes {
		return fmt.Errorf("has %d bytes, want at most %d", len(data), maxFileBytes)
	}
	data = append(data, '\n')
	err = replace(path, path+tmpSuffix, os.O_CREATE|os.O_TRUNC, data, durable)
	if full(err) {
		if spare, ok := d.spares.take(); ok {
			err = replace(path, spare, 0, data, durable)
		}
	}
	d.spares.fill() // the old content may have made room
	return err
}

// replace puts data into the file tmp and that in the place of path.
func replace(path, tmp string, flags int, data []byte, durable bool) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, remove(tmp))
		}
	}()
	f, err := os.OpenFile(tmp, os.O_WRONLY|flags|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Truncate(int64(len(data))) // what a spare file has beyond
	}
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	if durable {
		return syncDir(filepath.Dir(path))
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
