package rundir

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// write replaces the file at path atomically: a reader finds the old or the new content, also after
// a machine crash if durable is set. If the disk is full the old content stays.
func write(path string, data []byte, durable bool) error {
	tmp := path + tmpSuffix
	err := create(tmp, data, durable)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, remove(tmp))
	}
	if durable {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

// create writes data to a new file, or replaces the content of an existing one.
func create(path string, data []byte, durable bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// remove removes a file that may be missing.
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
