package rundir

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// write replaces the file at path as a whole: whoever reads it finds the old or
// the new content, also after a crash when durable is set. On a full disk one of
// the spare files takes the content.
func write(path string, data []byte, durable bool, from *spares) error {
	tmp := path + tmpSuffix
	err := overwrite(tmp, os.O_CREATE|os.O_TRUNC, data, durable)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if full(err) && from.take(tmp) {
		if err = overwrite(tmp, 0, data, durable); err == nil {
			err = from.replace(tmp, path)
		}
	}
	if err != nil {
		return errors.Join(err, remove(tmp))
	}
	if durable {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

// overwrite puts data in the place of what a file has.
func overwrite(path string, flags int, data []byte, durable bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|flags|unix.O_NOFOLLOW, 0o600)
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
	return errors.Join(err, f.Close())
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

// full reports whether an error says that the disk has no room: neither bytes nor
// inodes, or a quota is used up.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
