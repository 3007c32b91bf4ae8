package nodefs

import (
	"errors"
	"fmt"
	"slices"
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
	// Kind, Source and Options are the filesystem's; Source and Options may have escapes.
	Kind, Source, Options string
	// ID and Parent number the mount and the one that it is mounted on.
	ID, Parent int
	// PointReadOnly: no writes go through this mount of the filesystem.
	PointReadOnly bool
}

// String names the filesystem and what of it is mounted, wherever that is.
func (m Mount) String() string {
	return fmt.Sprintf("%s[%s] (%s, device %d:%d)", m.Source, m.Root, m.Kind, unix.Major(m.Device), unix.Minor(m.Device))
}

// ReadOnly reports whether the filesystem takes no writes, not only this mount of it. After an error
// ext4 shows that since Linux 6.15 in its options alone.
func (m Mount) ReadOnly() bool {
	return slices.ContainsFunc(strings.Split(m.Options, ","), func(o string) bool { return o == "ro" || o == "emergency_ro" })
}

// ParseMount parses a line of mountinfo. Lines may be long: each lower layer of a container adds
// to its line. The source may be empty.
func ParseMount(line string) (m Mount, ok bool) {
	// A dash separates the mount, which may have optional fields, from its filesystem.
	at, what, found := strings.Cut(line, " - ")
	left, right := strings.Split(at, " "), strings.Split(strings.TrimSuffix(what, "\n"), " ")
	if !found || len(left) < 6 || len(right) < 3 {
		return Mount{}, false
	}
	major, minor, found := strings.Cut(left[2], ":")
	high, highErr := strconv.ParseUint(major, 10, 32)
	low, lowErr := strconv.ParseUint(minor, 10, 32)
	id, idErr := strconv.Atoi(left[0])
	parent, parentErr := strconv.Atoi(left[1])
	if !found || errors.Join(highErr, lowErr, idErr, parentErr) != nil {
		return Mount{}, false
	}
	return Mount{
		Device: unix.Mkdev(uint32(high), uint32(low)), Root: Unescape(left[3]), Point: Unescape(left[4]), Kind: right[0], Source: right[1], Options: right[len(right)-1],
		ID: id, Parent: parent, PointReadOnly: slices.Contains(strings.Split(left[5], ","), "ro"),
	}, true
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
