package nodefs

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// Reclaim has the kernel's counters, since the boot, of pages that it took away while they were needed.
type Reclaim struct {
	// Refaults counts pages of files that were read again soon after they had been thrown out.
	Refaults int64
	// DirectScans counts pages that tasks have looked at because they had to find free memory themselves.
	DirectScans int64
}

// ErrNoCounters means that this kernel counts neither refaults nor direct scans.
var ErrNoCounters = errors.New("/proc/vmstat has neither workingset_refault_file nor pgscan_direct")

// ReclaimCounters returns the gauge of the counters in /proc/vmstat.
func ReclaimCounters(f FS) *Gauge[Reclaim] {
	return &Gauge[Reclaim]{open: func() (gaugeFiles[Reclaim], error) {
		file, err := f.Open("/proc/vmstat")
		return vmstat{file}, err
	}}
}

type vmstat struct{ file *File }

func (v vmstat) read(b *Buffer) (Reclaim, error) {
	content, err := v.file.Read(b)
	if err != nil {
		return Reclaim{}, err
	}
	r, err := parseVMStat(content)
	if err != nil && !errors.Is(err, ErrNoCounters) {
		err = fmt.Errorf("parse %s: %w", v.file.Path(), err)
	}
	return r, err
}

func (v vmstat) close() { v.file.Close() }

var (
	keyRefaultFile = []byte("\nworkingset_refault_file ")
	keyRefault     = []byte("\nworkingset_refault ") // until Linux 5.8
	keyScanDirect  = []byte("\npgscan_direct ")
)

func parseVMStat(b []byte) (r Reclaim, err error) {
	found := false
	for _, c := range []struct {
		into *int64
		key  []byte
	}{{&r.Refaults, keyRefault}, {&r.Refaults, keyRefaultFile}, {&r.DirectScans, keyScanDirect}} {
		if _, has := afterKey(b, c.key); !has {
			continue
		}
		if *c.into, err = parseStat(b, c.key); err != nil {
			return Reclaim{}, err
		}
		found = true
	}
	if !found {
		return Reclaim{}, ErrNoCounters
	}
	return r, nil
}

// ReadFullStall reads how long, since the boot, all tasks of a cgroup have waited for memory at once. Only "/" has a figure
// in version 1. ok is false if there is none.
func ReadFullStall(h Hierarchy, cgroup string, b *Buffer) (stalled time.Duration, ok bool) {
	var file *File
	err := ErrGone
	if cgroup == "/" {
		file, err = h.FS.Open("/proc/pressure/memory")
	} else if h.Version == V2 {
		file, err = h.open(cgroup, "memory.pressure")
	}
	if err != nil {
		return 0, false
	}
	defer file.Close()
	content, err := file.Read(b)
	if err != nil {
		return 0, false
	}
	return parseFullStall(content)
}

// parseFullStall parses a line such as "full avg10=0.00 avg60=0.00 avg300=0.00 total=12345", in microseconds.
func parseFullStall(b []byte) (time.Duration, bool) {
	line, found := afterKey(b, []byte("\nfull "))
	line, _, _ = bytes.Cut(line, []byte("\n"))
	_, total, has := bytes.Cut(line, []byte(" total="))
	us, err := parseAmount(total)
	const most = int64(1<<63-1) / int64(time.Microsecond)
	return time.Duration(us) * time.Microsecond, found && has && err == nil && us <= most
}
