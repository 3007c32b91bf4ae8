package nodefs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// unlimitedAbove is the value above which a limit counts as none, as in the kubelet: the kernel
// rounds the largest value down to whole pages (stats/helper.go:isMemoryUnlimited).
const unlimitedAbove = 1 << 62

// Keys of memory.stat and /proc/meminfo with the surrounding characters: a key counts only at
// the start of a line.
var (
	keyTotalInactiveFile = []byte("\ntotal_inactive_file ")
	keyInactiveFile      = []byte("\ninactive_file ")
	keyAnon              = []byte("\nanon ")
	keyFile              = []byte("\nfile ")
	keyActiveFile        = []byte("\nactive_file ")
	keyFileMapped        = []byte("\nfile_mapped ")
	keyMemTotal          = []byte("\nMemTotal:")
	keyMemAvailable      = []byte("\nMemAvailable:")
	keyHugetlb           = []byte("\nHugetlb:")
)

// parseAmount parses a file that contains one number, such as memory.current.
func parseAmount(b []byte) (int64, error) {
	v, err := oneNumber(b)
	if err == nil && v > math.MaxInt64 {
		err = fmt.Errorf("%d is too large", v)
	}
	if err != nil {
		return 0, err
	}
	return int64(v), nil
}

func oneNumber(b []byte) (uint64, error) {
	v, rest, err := leadingUint(b)
	if err == nil && len(bytes.TrimSpace(rest)) != 0 {
		err = fmt.Errorf("%.40q is not one number", b)
	}
	return v, err
}

// parseLimit parses a limit file. ok is false if there is no limit: "max" in version 2, a
// number near 2^63 in version 1.
func parseLimit(b []byte) (limit int64, ok bool, err error) {
	if string(bytes.TrimSpace(b)) == "max" {
		return 0, false, nil
	}
	v, err := oneNumber(b)
	if err != nil || v > unlimitedAbove {
		return 0, false, err
	}
	return int64(v), true, nil
}

// parseStat returns the figure of one of the above keys in memory.stat.
func parseStat(b, key []byte) (int64, error) {
	at, ok := afterKey(b, key)
	if !ok {
		return 0, missing(key)
	}
	v, rest, err := leadingUint(at)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: %w", bytes.TrimSpace(key), err)
	case len(rest) > 0 && rest[0] != '\n':
		return 0, fmt.Errorf("%s: %.40q is not one number", bytes.TrimSpace(key), at)
	case v > math.MaxInt64:
		return 0, fmt.Errorf("%s: %d is too large", bytes.TrimSpace(key), v)
	}
	return int64(v), nil
}

// parseMeminfo returns the figure of one of the above keys in /proc/meminfo, in bytes. ok is
// false if it is missing, like MemAvailable before Linux 3.14.
func parseMeminfo(b, key []byte) (v int64, ok bool, err error) {
	at, ok := afterKey(b, key)
	if !ok {
		return 0, false, nil
	}
	kib, rest, err := leadingUint(bytes.TrimLeft(at, " "))
	switch {
	case err != nil:
	case !bytes.HasPrefix(rest, []byte(" kB")):
		err = errors.New("not in kB")
	case kib > math.MaxInt64>>10:
		err = fmt.Errorf("%d kB is too large", kib)
	default:
		return int64(kib) << 10, true, nil
	}
	return 0, false, fmt.Errorf("%s %w", bytes.TrimSpace(key), err)
}

// afterKey returns the text after key, which begins with the line break before it.
func afterKey(b, key []byte) ([]byte, bool) {
	if bytes.HasPrefix(b, key[1:]) {
		return b[len(key)-1:], true
	}
	_, after, ok := bytes.Cut(b, key)
	return after, ok
}

func missing(key []byte) error {
	return fmt.Errorf("no %s", bytes.TrimRight(bytes.TrimSpace(key), ":"))
}

// leadingUint is like strconv.ParseUint, but takes bytes and so needs no string.
func leadingUint(b []byte) (v uint64, rest []byte, err error) {
	i := 0
	for ; i < len(b) && '0' <= b[i] && b[i] <= '9'; i++ {
		d := uint64(b[i] - '0')
		if v > (math.MaxUint64-d)/10 {
			return 0, nil, fmt.Errorf("%.40q is too large", b)
		}
		v = v*10 + d
	}
	if i == 0 {
		return 0, nil, fmt.Errorf("%.40q is not a number", b)
	}
	return v, b[i:], nil
}
