package plugindir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// shebangBytes is the length of a script's beginning that the kernel reads (BINPRM_BUF_SIZE).
const shebangBytes = 256

// shebang is the first line of a script: its interpreter and perhaps one argument.
type shebang []string

// readShebang returns nil for a file that is not a script.
func readShebang(file *os.File) (shebang, error) {
	start := make([]byte, shebangBytes)
	n, err := file.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return parseShebang(start[:n])
}

// parseShebang parses a line like the kernel (fs/binfmt_script.c).
func parseShebang(start []byte) (shebang, error) {
	line, ok := bytes.CutPrefix(start, []byte("#!"))
	if !ok {
		return nil, nil
	}
	line, _, whole := bytes.Cut(line, []byte{'\n'})
	if !whole && len(start) >= shebangBytes {
		return nil, fmt.Errorf("first line %.20q... is longer than %d bytes, want a shorter one", start, shebangBytes)
	}
	text := strings.Trim(string(line), " \t")
	interpreter, argument, _ := strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	if !filepath.IsAbs(interpreter) || strings.ContainsRune(text, 0) {
		return nil, fmt.Errorf("first line %q, want #! and the absolute path of an interpreter", start[:len(line)+2])
	}
	s := shebang{interpreter}
	if argument = strings.Trim(argument, " "); argument != "" {
		s = append(s, argument)
	}
	return s, nil
}

// copyBinary copies the program to sealed memory, to be executed from there, and returns its hash.
func (p *program) copyBinary(path string) (string, error) {
	name := filepath.Base(path)
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // Linux before 6.3
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return "", fmt.Errorf("its filesystem has no leases, and no copy can be made in memory: %w", err)
	}
	sealed := os.NewFile(uintptr(fd), name)
	found, err := hashOf(p.File, sealed)
	if err == nil {
		_, err = unix.FcntlInt(sealed.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err == nil {
		// The kernel refuses to execute a file while a descriptor can write to it.
		var again *os.File
		if again, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", sealed.Fd())); err == nil {
			_ = p.File.Close()
			p.File = again
		}
	}
	return found, errors.Join(err, sealed.Close())
}

// copyScript copies the script to a place that only the host can change, for the interpreter to
// read, and returns its hash.
func (p *program) copyScript(path string, line shebang) (string, error) {
	if _, _, err := Trusted(line[0]); err != nil {
		return "", fmt.Errorf("its interpreter: %w", err)
	}
	dir, err := p.copies("-script")
	if err != nil {
		return "", err
	}
	p.CleanUp = func() { _ = os.RemoveAll(dir) }
	// The plugin's user must be able to read it.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", err
	}
	name := filepath.Join(dir, filepath.Base(path))
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	found, err := hashOf(p.File, file)
	if err := errors.Join(err, file.Chmod(0o444), file.Close()); err != nil {
		return "", err
	}
	p.Args = append(line, name)
	return found, nil
}
