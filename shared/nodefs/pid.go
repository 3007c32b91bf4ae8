package nodefs

import (
	"errors"
	"fmt"
)

// PIDSample is how many tasks the node may have and has, by the kubelet's
// formula (stats/pidlimit/pidlimit_linux.go).
type PIDSample struct {
	// PIDMax and ThreadsMax are kernel.pid_max and kernel.threads-max, 0 where the
	// node has no such setting.
	PIDMax     int64
	ThreadsMax int64
	// Running is all tasks of the machine: threads, whatever their state.
	Running int64
}

// Max is the smaller one of the two limits.
func (s PIDSample) Max() int64 {
	switch {
	case s.PIDMax == 0:
		return s.ThreadsMax
	case s.ThreadsMax == 0:
		return s.PIDMax
	default:
		return min(s.PIDMax, s.ThreadsMax)
	}
}

// Available is the number of tasks that may still be started. It is negative
// when a limit was set below what runs.
func (s PIDSample) Available() int64 { return s.Max() - s.Running }

// A PIDGauge reads how many tasks may still be started on the node.
//
// kernel.pid_max is that of the pid namespace of the process that opens it, also
// through a mount of the node's /proc (Linux 6.14): see CheckPIDNamespace.
type PIDGauge = Gauge[PIDSample]

type pidFiles struct {
	pidMax, threadsMax *File // nil where there is none, at most one of them
	loadavg            *File
}

// PIDs is the gauge of the node's tasks.
func (f FS) PIDs() *PIDGauge { return &PIDGauge{open: f.openPIDs} }

// ReadPIDs reads the node's tasks once, keeping nothing open.
func (f FS) ReadPIDs() (PIDSample, error) {
	g := f.PIDs()
	defer g.Close()
	return g.Read(&Buffer{})
}

// openPIDs opens what there is. As in the kubelet one of the two limits is
// enough.
func (f FS) openPIDs() (gaugeFiles[PIDSample], error) {
	files := new(pidFiles)
	var pidMaxErr, threadsMaxErr, loadavgErr error
	files.pidMax, pidMaxErr = f.Open("/proc/sys/kernel/pid_max")
	files.threadsMax, threadsMaxErr = f.Open("/proc/sys/kernel/threads-max")
	files.loadavg, loadavgErr = f.Open("/proc/loadavg")
	if loadavgErr == nil && (pidMaxErr == nil || threadsMaxErr == nil) {
		return files, nil
	}
	files.close()
	if loadavgErr != nil {
		return nil, loadavgErr
	}
	return nil, errors.Join(pidMaxErr, threadsMaxErr)
}

func (p *pidFiles) read(b *Buffer) (s PIDSample, err error) {
	if p.pidMax != nil {
		if s.PIDMax, err = readParsed(p.pidMax, b, parsePositive); err != nil {
			return PIDSample{}, err
		}
	}
	if p.threadsMax != nil {
		if s.ThreadsMax, err = readParsed(p.threadsMax, b, parsePositive); err != nil {
			return PIDSample{}, err
		}
	}
	if s.Running, err = readParsed(p.loadavg, b, parseTasks); err != nil {
		return PIDSample{}, err
	}
	return s, nil
}

func (p *pidFiles) close() {
	for _, file := range []*File{p.pidMax, p.threadsMax, p.loadavg} {
		if file != nil {
			file.Close()
		}
	}
}

func parsePositive(b []byte) (int64, error) {
	v, err := parseAmount(b)
	if err == nil && v == 0 {
		err = fmt.Errorf("%.40q, want a number above zero", b)
	}
	return v, err
}
