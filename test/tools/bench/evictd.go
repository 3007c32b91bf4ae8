package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
)

// A daemon is a running evictd whose log records are consumed one by one.
type daemon struct {
	*evictd.Process
	// seen is the time of the last consumed record.
	seen int64
}

// await waits at most within for the next record with this message, and consumes all records up
// to it.
func (d *daemon) await(ctx context.Context, msg string, within time.Duration) (evictd.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r, err := d.Await(ctx, func(r evictd.Record) bool { return r.At > d.seen && r.Msg == msg })
	if err != nil {
		return r, fmt.Errorf("wait for evictd to log %q: %w; its last lines:\n%s", msg, err, d.LogTail())
	}
	d.seen = r.At
	return r, nil
}

// forget consumes all records so far.
func (d *daemon) forget() { d.seen = int64(monotonic()) }

// passes returns the number of passes from evictd's status.
func (d *daemon) passes(ctx context.Context) (int64, error) {
	status, err := d.Status(ctx)
	if err != nil {
		return 0, err
	}
	if why, _ := status["notReady"].(string); why != "" {
		return 0, fmt.Errorf("evictd is not ready: %s", why)
	}
	passes, ok := status["passes"].(float64)
	if !ok {
		return 0, errors.New("evictd's status does not count passes")
	}
	return int64(passes), nil
}

// usage returns the usage of evictd and its plugins, by program.
func (d *daemon) usage() (map[string]usage, error) {
	pids, err := evictd.Children(d.PID())
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, errors.New("evictd has no plugin process")
	}
	pids["evictd"] = d.PID()
	all := map[string]usage{}
	for name, pid := range pids {
		if all[name], err = usageOf(pid); err != nil {
			return nil, err
		}
	}
	return all, nil
}
