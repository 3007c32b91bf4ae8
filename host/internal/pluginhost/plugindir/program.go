package plugindir

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/sandbox"
)

// Open opens the program at path, which has no symbolic links and must still be the file looked,
// checks it again and, if there is a pin, compares its hash. copies creates a directory that only
// the host can change; what ends its name.
func Open(path string, looked ID, pin string, copies func(what string) (string, error)) (sandbox.Program, error) {
	// Without O_NONBLOCK opening a pipe would wait for its writer.
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return sandbox.Program{}, err
	}
	p := program{Program: sandbox.Program{File: file}, copies: copies}
	if err := p.check(path, looked, pin); err != nil {
		p.Close()
		p.Discard()
		return sandbox.Program{}, err
	}
	return p.Program, nil
}

// TryOpen makes the checks of Open without keeping the program open.
func TryOpen(path string, looked ID, pin string) error {
	program, err := Open(path, looked, pin, func(string) (string, error) { return os.MkdirTemp("", "evictd-check-") })
	if err == nil {
		program.Close()
		program.Discard()
	}
	return err
}

// A program is a program that has been checked.
type program struct {
	sandbox.Program

	copies func(what string) (string, error)
}

func (p *program) check(path string, looked ID, pin string) error {
	info, err := p.File.Stat()
	if err != nil {
		return err
	}
	if err := errors.Join(checkOwner(path, info, uint32(os.Geteuid()), true), checkExecutable(path, info)); err != nil {
		return Refusal{Err: err}
	}
	// A read lease is refused while the file is open for writing, and makes a writer wait. Not
	// every filesystem supports leases.
	_, err = unix.FcntlInt(p.File.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("%w: %s is open for writing", ErrIncomplete, path)
	}
	leased := err == nil
	// The change time is that of the lease, or earlier.
	if info, err = p.File.Stat(); err != nil {
		return err
	}
	if IDOf(info) != looked {
		return fmt.Errorf("%w: %s changes", ErrIncomplete, path)
	}
	readAhead(p.File, info.Size())
	if pin == "" {
		return nil
	}
	return p.verify(path, pin, leased)
}

// mostReadAhead bounds in bytes what is read ahead of a program, as memory may be short.
const mostReadAhead = 32 << 20

// readAhead makes the kernel begin to read a program of so many bytes. On a busy disk each page fault of
// the start would wait for a request of its own, one after the other: 190 in the built-in plugins.
// For each call the kernel reads as much as the largest request of the disk, at least 128 KiB.
func readAhead(file *os.File, size int64) {
	for _, piece := range [...]int64{1 << 20, 128 << 10} {
		for at := int64(0); at < min(size, mostReadAhead); at += piece {
			_ = unix.Fadvise(int(file.Fd()), at, piece, unix.FADV_WILLNEED)
		}
	}
}

// verify checks the hash of what will be executed. A binary under a lease is executed in place. One
// that could be modified meanwhile is copied first, and so is a script: its interpreter reads it
// after the lease has ended, perhaps by name.
func (p *program) verify(path, pin string, leased bool) error {
	script, err := readShebang(p.File)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	found := ""
	switch {
	case script != nil:
		found, err = p.copyScript(path, script)
	case !leased:
		found, err = p.copyBinary(path)
	default:
		found, err = hashOf(p.File, io.Discard)
	}
	if err != nil {
		return fmt.Errorf("verify %s: %w", path, err)
	}
	if found != pin {
		return Refusal{Err: fmt.Errorf("%s: has sha256 %s, want %s", path, found, pin)}
	}
	return nil
}

// hashOf returns the hash of a file's content, and copies the content to w.
func hashOf(file *os.File, w io.Writer) (string, error) {
	h := sha256.New()
	// By position: the process shares the descriptor's offset.
	if _, err := io.Copy(io.MultiWriter(h, w), io.NewSectionReader(file, 0, 1<<62)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// truncated reports whether an ELF file is shorter than its headers claim. The kernel checks the rest.
func truncated(r io.ReaderAt, size int64) bool {
	magic := make([]byte, min(size, int64(len(elf.ELFMAG))))
	if _, err := r.ReadAt(magic, 0); err != nil || !bytes.HasPrefix([]byte(elf.ELFMAG), magic) {
		return false // or it has just become shorter, which the next check finds
	}
	f, err := elf.NewFile(r)
	if err != nil {
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	}
	least := uint64(0)
	for _, p := range f.Progs {
		least = max(least, p.Off+p.Filesz)
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS { // which occupies no space in the file
			least = max(least, s.Offset+s.FileSize)
		}
	}
	return least > uint64(size)
}

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
