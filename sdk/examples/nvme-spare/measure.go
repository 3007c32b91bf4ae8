package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"strconv"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// Measure implements eviction.Measurer: what pods have written since they came.
//
// Cgroup version 1 charges to a pod only what it writes past the page cache
// (O_DIRECT); the rest is the root's. With it the order is less to the point.
func (p *spare) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	s := p.current.Load()
	if s == nil {
		return sdk.ErrNotConfigured
	}
	b := new(nodefs.Buffer)
	for i := range req.Pods {
		if err := ctx.Err(); err != nil {
			return err // what was emitted counts
		}
		m := eviction.Measurement{UID: req.Pods[i].UID, State: eviction.Measured, Time: time.Now()}
		written, err := s.written(&req.Pods[i], b)
		switch {
		case err == nil:
			// Bytes, though the signal counts percent: the figure orders pods and
			// is held against nothing.
			m.Usage = []eviction.SignalUsage{{Signal: signal, Value: written}}
		case errors.Is(err, nodefs.ErrGone) && !req.Pods[i].Running:
			m.State = eviction.NoStats
		default:
			m.State, m.Err = eviction.MeasurementUnknown, err.Error()
		}
		emit(m)
	}
	return nil
}

// counters are where the two versions of cgroups count what is written, and what
// the number of bytes follows in a line. Version 1 comes first: on a hybrid node
// the other is mounted, too, without an io controller.
var counters = []struct{ dir, file, key string }{
	{"/sys/fs/cgroup/blkio", "blkio.throttle.io_service_bytes_recursive", "Write "},
	{"/sys/fs/cgroup", "io.stat", "wbytes="},
}

// written reads the counter of a pod's cgroup, in which its containers are. The
// error wraps nodefs.ErrGone when there is none.
func (s *settings) written(pod *eviction.Pod, b *nodefs.Buffer) (sum int64, err error) {
	err = s.naming.Pod(pod.UID, string(pod.QoSClass), func(cgroup string) (err error) {
		sum, err = s.writtenIn(cgroup, b)
		return err
	})
	return sum, err
}

func (s *settings) writtenIn(cgroup string, b *nodefs.Buffer) (_ int64, err error) {
	for _, c := range counters {
		var file *nodefs.File
		if file, err = s.fs.Open(path.Join(c.dir, cgroup, c.file)); errors.Is(err, nodefs.ErrGone) {
			continue
		}
		if err != nil {
			return 0, err
		}
		defer file.Close()
		content, err := file.Read(b)
		if err != nil {
			return 0, err
		}
		bytes, err := parseWritten(content, c.key, s.device)
		if err != nil {
			return 0, fmt.Errorf("parse %s: %w", file.Path(), err)
		}
		return bytes, nil
	}
	return 0, err
}

// parseWritten adds up what follows key in the lines of a device, or of all if
// device is empty:
//
//	259:0 rbytes=1 wbytes=4096 rios=1 wios=1 dbytes=0 dios=0
//	259:0 Write 4096
//
// Lines of other kinds are skipped, so is a device that has been read from only.
func parseWritten(content []byte, key, device string) (int64, error) {
	var sum int64
	for line := range bytes.Lines(content) {
		of, rest, ok := bytes.Cut(line, []byte(" "))
		if !ok || !deviceNumber.Match(of) || device != "" && string(of) != device {
			continue
		}
		_, rest, ok = bytes.Cut(rest, []byte(key))
		if !ok {
			continue
		}
		number, _, _ := bytes.Cut(bytes.TrimRight(rest, "\n"), []byte(" "))
		n, err := strconv.ParseInt(string(number), 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%.80q, want a number of bytes after %q", line, key)
		}
		if sum += n; sum < 0 {
			return math.MaxInt64, nil
		}
	}
	return sum, nil
}
