package plugindir

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
)

// truncated reports whether an ELF file is shorter than its headers claim. It checks nothing else:
// the kernel does.
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
