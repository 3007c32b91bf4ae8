package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// Observe implements eviction.Observer. A file that is missing, stale or not
// understood makes the signal unknown, not zero: that would empty the node.
func (p *spare) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	s := p.current.Load()
	if s == nil {
		return eviction.ObserveReply{}, sdk.ErrNotConfigured
	}
	var reply eviction.ObserveReply
	for _, asked := range req.Signals {
		if asked == signal {
			reply.Observations = append(reply.Observations, s.observe(time.Now()))
		}
	}
	return reply, nil
}

func (s *settings) observe(now time.Time) eviction.Observation {
	percent, written, err := readSmartLog(s.fs.Path(s.smartLog))
	// A file from the future tells as little: one of the two clocks is wrong.
	if age := now.Sub(written); err == nil && age.Abs() > s.maxAge {
		err = fmt.Errorf("%s is %v old, more than %v: does its writer run?", s.smartLog, age.Round(time.Second), s.maxAge)
	}
	if err != nil {
		return eviction.Observation{Signal: signal, State: eviction.Unknown, Err: err.Error()}
	}
	return eviction.Observation{
		Signal: signal, State: eviction.Observed, Available: percent, Capacity: 100,
		// Not now: the host evicts on a figure once, and again only on a newer one.
		Time: written,
	}
}

// maxLogBytes is many times the size of a SMART log.
const maxLogBytes = 64 << 10

// readSmartLog returns what the file says and when it was written.
func readSmartLog(path string) (percent int64, written time.Time, err error) {
	// Without waiting, should it be a FIFO: a pass must not hang on its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, time.Time{}, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return 0, time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return 0, time.Time{}, fmt.Errorf("%s is no regular file", path)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxLogBytes+1))
	if err != nil {
		return 0, time.Time{}, err
	}
	if percent, err = parseSmartLog(content); err != nil {
		return 0, time.Time{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return percent, info.ModTime(), nil
}

// parseSmartLog returns avail_spare of what `nvme smart-log -o json` prints. Other
// fields may be what they like; they change with each version of nvme-cli.
func parseSmartLog(content []byte) (percent int64, err error) {
	if len(content) > maxLogBytes {
		return 0, fmt.Errorf("larger than %d bytes", maxLogBytes)
	}
	// A map, since a struct's fields would match names in other cases as well.
	var log map[string]json.RawMessage
	if err := json.Unmarshal(content, &log); err != nil {
		return 0, err
	}
	text, ok := log["avail_spare"]
	if !ok {
		return 0, errors.New("no avail_spare")
	}
	percent, err = strconv.ParseInt(string(text), 10, 64)
	if err != nil || percent < 0 || percent > 100 {
		return 0, fmt.Errorf("avail_spare is %.40q, want a whole number from 0 to 100", text)
	}
	return percent, nil
}
