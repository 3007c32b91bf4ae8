package uml

import (
	"bytes"
	"fmt"
)

// Modes of the entries of an initramfs.
const (
	modeDir         = 0o040755
	modeFile        = 0o100644
	modeExecutable  = 0o100755
	modeCharDevice  = 0o020600
	modeBlockDevice = 0o060600
)

// entry is one file of an initramfs.
type entry struct {
	name         string
	mode         uint32
	major, minor int
	content      []byte
}

// archive packs entries in cpio's "newc" format, which the kernel unpacks
// (Documentation/driver-api/early-userspace/buffer-format.rst).
func archive(entries ...entry) []byte {
	var b bytes.Buffer
	for i, e := range append(entries, entry{name: "TRAILER!!!"}) {
		fields := []int{i + 1, int(e.mode), 0, 0, 1, 0, len(e.content), 0, 0, e.major, e.minor, len(e.name) + 1, 0}
		b.WriteString("070701")
		for _, f := range fields {
			fmt.Fprintf(&b, "%08X", f)
		}
		b.WriteString(e.name + "\x00")
		pad(&b)
		b.Write(e.content)
		pad(&b)
	}
	return b.Bytes()
}

func pad(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}
