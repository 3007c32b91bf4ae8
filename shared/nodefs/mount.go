package nodefs

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Mount is a line of a mountinfo file (proc(5)).
type Mount struct {
	// Device is the device number of the filesystem, as in stat's st_dev.
	Device uint64
	// Root is the path within the filesystem that is mounted at Point.
	Root, Point string
	// Kind and Options are the filesystem's; Options may have escapes.
	Kind, Options string
}

// ParseMount parses a line of mountinfo. Lines may be long: each lower layer of a container adds
// to its line.
func ParseMount(line string) (m Mount, ok bool) {
	// A dash separates the mount, which may have optional fields, from its filesystem.
	at, what, found := strings.Cut(line, " - ")
	left, right := strings.Fields(at), strings.Fields(what)
	if !found || len(left) < 6 || len(right) < 3 {
		return Mount{}, false
	}
	major, minor, found := strings.Cut(left[2], ":")
	high, highErr := strconv.ParseUint(major, 10, 32)
	low, lowErr := strconv.ParseUint(minor, 10, 32)
	if !found || highErr != nil || lowErr != nil {
		return Mount{}, false
	}
	return Mount{unix.Mkdev(uint32(high), uint32(low)), Unescape(left[3]), Unescape(left[4]), right[0], right[2]}, true
}

// Unescape decodes the kernel's octal escapes of spaces, commas and the like.
func Unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if b, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(b))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
