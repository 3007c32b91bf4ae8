// Command drive is the plugin for the test of custom signals. It serves the signals
// acme.example/nvme.spare and acme.example/nvme.wear, whose figures are files in the directory that
// its configuration names. The text after "condition=" at the end of its binary is their condition,
// so that a test can replace the plugin by one with another definition of its signals.
//
// It is not an example: see sdk/examples/nvme-spare.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	spare eviction.Signal = "acme.example/nvme.spare"
	wear  eviction.Signal = "acme.example/nvme.wear"
	// look is the time between two reads of the figures in Watch.
	look = 5 * time.Millisecond
)

func main() {
	condition, err := appended("/proc/self/exe")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	sdk.Serve(plugin(condition))
}

// appended reads the condition at the end of a binary.
func appended(binary string) (eviction.Condition, error) {
	f, err := os.Open(binary)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const tail = 256
	if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
		return "", err
	}
	end, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	if _, condition, ok := bytes.Cut(end, []byte("\ncondition=")); ok {
		return eviction.Condition(bytes.TrimSpace(condition)), nil
	}
	return "acme.example/NVMePressure", nil
}

func plugin(condition eviction.Condition) sdk.Plugin {
	d := &drive{}
	define := func(s eviction.Signal, resource string) eviction.SignalSpec {
		return eviction.SignalSpec{
			Signal:       s,
			Definition:   &eviction.Definition{Unit: "blocks", Format: eviction.FormatDecimalSI, Resource: resource, Condition: condition},
			ReclaimSteps: []eviction.ReclaimStep{{Name: "trim"}},
		}
	}
	return sdk.Plugin{
		Name: "drive", Version: "1.0.0",
		Signals:    []eviction.SignalSpec{define(spare, "acme.example/nvme-spare"), define(wear, "acme.example/nvme-wear")},
		Configurer: sdk.Configure(d.configure), Observer: d, Measurer: d, Watcher: d, Ranker: d, Reclaimer: d,
	}
}

// drive implements all capabilities.
type drive struct {
	mu  sync.Mutex
	dir string
	// trimmed is the amount that steps have reclaimed.
	trimmed int64
}

type config struct {
	// Dir contains the files: "spare" and "wear" have the available amount and the capacity,
	// "trim" the amount that a step frees once, "used-UID" the usage of a pod.
	Dir string `json:"dir"`
}

func (d *drive) configure(_ context.Context, _ eviction.NodeFacts, c config) error {
	if c.Dir == "" {
		return errors.New("config: dir is missing")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dir = c.Dir
	return nil
}

// numbers reads the first n numbers of a file.
func (d *drive) numbers(name string, n int) ([]int64, error) {
	d.mu.Lock()
	path := filepath.Join(d.dir, name)
	d.mu.Unlock()
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := make([]int64, n)
	for i, field := range strings.Fields(string(text)) {
		if i < n {
			if _, err := fmt.Sscan(field, &out[i]); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return out, nil
}

// Observe implements eviction.Observer.
func (d *drive) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	var reply eviction.ObserveReply
	for _, s := range req.Signals {
		o := eviction.Observation{Signal: s, Time: time.Now()}
		figures, err := d.numbers(strings.TrimPrefix(string(s), "acme.example/nvme."), 2)
		if err != nil {
			o.Err = err.Error()
		} else {
			d.mu.Lock()
			o.State, o.Available, o.Capacity = eviction.Observed, figures[0]+d.trimmed, figures[1]
			d.mu.Unlock()
		}
		reply.Observations = append(reply.Observations, o)
	}
	return reply, nil
}

// Measure implements eviction.Measurer.
func (d *drive) Measure(_ context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	for i := range req.Pods {
		m := eviction.Measurement{UID: req.Pods[i].UID, State: eviction.NoStats}
		if used, err := d.numbers("used-"+m.UID, 1); err == nil {
			m.State = eviction.Measured
			for _, s := range req.Signals {
				m.Usage = append(m.Usage, eviction.SignalUsage{Signal: s, Value: used[0]})
			}
		}
		emit(m)
	}
	return nil
}

// Watch implements eviction.Watcher.
func (d *drive) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	last := map[eviction.Signal]int64{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		for _, t := range req.Thresholds {
			figures, err := d.numbers(strings.TrimPrefix(string(t.Signal), "acme.example/nvme."), 2)
			if err != nil || figures[0] == last[t.Signal] {
				continue
			}
			last[t.Signal] = figures[0]
			wake(eviction.Wake{Signal: t.Signal, Cause: "file"})
		}
	}
}

// Rank implements eviction.Ranker: it puts the pod with the least usage first, unlike any other
// ranker.
func (d *drive) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	candidates := slices.Clone(req.Candidates)
	slices.SortStableFunc(candidates, func(a, b eviction.Candidate) int {
		return int(a.Measurement.UsageFor(req.Signal) - b.Measurement.UsageFor(req.Signal))
	})
	var out []eviction.Ranked
	for i := range candidates {
		c := &candidates[i]
		out = append(out, eviction.Ranked{UID: c.Pod.UID, Reason: fmt.Sprintf("uses %d %s, %d short", c.Measurement.UsageFor(req.Signal), req.Unit, req.Shortfall)})
	}
	return out, nil
}

// Reclaim implements eviction.Reclaimer.
func (d *drive) Reclaim(_ context.Context, _ eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	frees, err := d.numbers("trim", 1)
	if err != nil {
		return eviction.Reclaimed{Message: "nothing to trim"}, nil // the file does not exist
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	released := frees[0] - d.trimmed
	d.trimmed = frees[0]
	return eviction.Reclaimed{Bytes: released, Message: "trimmed"}, nil
}
