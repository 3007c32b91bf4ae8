package supervisor

import (
	"fmt"
	"io"
	"os"
)

// mostSocketFiles is what a plugin may have in the directory of its socket: the
// socket, and whatever it was made from.
const mostSocketFiles = 16

// checkSize refuses a directory with more in it than a plugin needs there: files
// cost memory of the node that is nobody's limit. With no directory below there is
// nowhere else to make them.
func checkSize(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("directory of its socket: %w", err)
	}
	defer d.Close() //nolint:errcheck // only read
	entries, err := d.ReadDir(mostSocketFiles + 1)
	if err != nil && err != io.EOF { //nolint:errorlint // never wrapped
		return fmt.Errorf("directory of its socket: %w", err)
	}
	if len(entries) > mostSocketFiles {
		return fmt.Errorf("has made more than %d files beside its socket, want the socket alone", mostSocketFiles)
	}
	for _, e := range entries {
		if e.IsDir() {
			return fmt.Errorf("has made the directory %.100q beside its socket, want the socket alone", e.Name())
		}
	}
	return nil
}

// takeBack takes a directory that was given to the plugin, which has its socket
// there by now and needs to make nothing more and no way to it, and looks at what there is a last
// time. It is all the same where the plugin has no user of its own.
func (c *confinement) takeBack(dir string) error {
	if c.credential != nil && c.credential.Uid != uint32(os.Geteuid()) {
		if err := os.Chown(dir, os.Geteuid(), os.Getegid()); err != nil {
			return fmt.Errorf("directory of its socket: %w", err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("directory of its socket: %w", err)
		}
	}
	return checkSize(dir)
}
