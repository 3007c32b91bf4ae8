package inspect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/hang"
)

const (
	// watchEvery is the interval between inspections of a Watch, watchOften that of what mounts and pods
	// change. After errors it is as long as the newest error has lasted, between watchAgain and watchOften.
	watchEvery = time.Hour
	watchAgain = 10 * time.Second
	watchOften = time.Minute
)

// A Lasting is a finding of a daemon, with its time.
type Lasting struct {
	Finding

	// Since is the time of the first inspection from which on the probe has always had a finding of
	// this level.
	Since time.Time `json:"since"`
}

// A Watch repeats the probes while a daemon runs, except for those whose problems the daemon
// notices anyway. Found and Healthy may be called from any goroutine, also on a nil Watch.
type Watch struct {
	options func() Options
	log     *slog.Logger
	again   chan struct{}
	found   atomic.Pointer[[]Lasting]
	left    hang.Left
	begun   map[string]string
	// here is the time of the next inspection of this node, api plans those of the API server.
	here time.Time
	api  pace
	// first receives the findings of the first inspection since the start or an Again, and of those with
	// a new one of filesystems.
	first func([]Lasting)
	// looked: Run has inspected since the start or the last Again.
	looked bool
	// brief: look leaves out the probes that are not repeated often. changed: it has a new finding of
	// filesystems.
	brief, changed bool
}

// NewWatch returns a watch without findings. options is called before each inspection; first is
// called with the findings of the first one, and of the first one after each Again.
func NewWatch(options func() Options, first func([]Lasting), log *slog.Logger) *Watch {
	w := &Watch{options: options, first: first, log: log, again: make(chan struct{}, 1), begun: map[string]string{}}
	w.api.begin()
	return w
}

// Run inspects now, after each Again, and periodically until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	var whole time.Time // of the next inspection with all probes
	for {
		first, wait, here := !w.looked, watchOften, w.dueHere()
		w.brief = time.Now().Before(whole)
		switch newest := w.look(ctx); {
		case !here:
		case !newest.IsZero():
			wait, whole = min(max(time.Since(newest), watchAgain), watchOften), time.Time{}
		case !w.brief:
			whole = time.Now().Add(watchEvery)
		}
		if here {
			w.here = time.Now().Add(wait)
		}
		if (first || w.changed) && ctx.Err() == nil {
			w.first(w.Found())
		}
		select {
		case <-ctx.Done():
			return
		case <-w.again:
			w.looked, w.here, whole = false, time.Time{}, time.Time{}
			w.api.begin()
		case <-time.After(w.api.within(time.Until(w.here))):
		}
	}
}

// Again makes Run inspect soon, after a reload.
func (w *Watch) Again() {
	if w == nil {
		return
	}
	select {
	case w.again <- struct{}{}:
	default:
	}
}

func (w *Watch) dueHere() bool { return !time.Now().Before(w.here) }

// dueAPI reports whether to inspect the API server now, and whether that sends requests. It waits for
// the daemon's list of pods, and reports without a request that this list has failed.
func (w *Watch) dueAPI(o Options) (due, requests bool) {
	requests = w.api.due()
	if o.Listed == nil {
		return requests, requests
	}
	_, listed, err := o.Listed()
	requests = requests && listed
	return requests || err != nil, requests
}

// look inspects, logs new findings, and returns the begin of the newest error of this node.
func (w *Watch) look(ctx context.Context) (newest time.Time) {
	now, former := time.Now(), w.Found()
	ran := map[string]bool{}
	o := w.options()
	o.left, o.begun = &w.left, w.begun
	here := w.dueHere()
	api, requested := w.dueAPI(o)
	all := run(ctx, o, func(p probe) bool {
		ran[p.name] = here && p.daemon > 0 && (p.daemon == watchOften || !w.brief) || p.requests && api
		return ran[p.name]
	})
	if ctx.Err() != nil {
		return newest
	}
	if requested {
		w.api.after(slices.DeleteFunc(slices.Clone(all), func(f Finding) bool { return f.Probe != apiServer }))
	}
	found := slices.DeleteFunc(slices.Clone(former), func(l Lasting) bool { return ran[l.Probe] })
	w.changed = false
	for _, f := range all {
		lasting := Lasting{f, now}
		for _, l := range former { // the text may vary between inspections
			if l.Probe == f.Probe && l.Level == f.Level {
				lasting.Since = l.Since
				break
			}
		}
		if !slices.ContainsFunc(former, func(l Lasting) bool { return l.Finding == f }) {
			w.changed = w.changed || f.Probe == Filesystems
			w.report(f)
		}
		if f.isError() && f.Probe != apiServer && lasting.Since.After(newest) {
			newest = lasting.Since
		}
		found = append(found, lasting)
	}
	if len(found) == 0 && len(former) > 0 {
		w.log.Info("node and configuration are as evictd needs them")
	}
	w.found.Store(&found)
	w.looked = true
	return newest
}

// report logs a new finding.
func (w *Watch) report(f Finding) {
	switch {
	case f.isError():
		w.log.Error("node or configuration is not as evictd needs it", "finding", f.Text)
	case f.Level == Warning:
		w.log.Warn("node or configuration is not as it should be", "finding", f.Text)
	default:
		w.log.Info("node or configuration has a peculiarity", "finding", f.Text)
	}
}

// Found returns the findings of the last inspection.
func (w *Watch) Found() []Lasting {
	if w == nil {
		return nil
	}
	if found := w.found.Load(); found != nil {
		return *found
	}
	return nil
}

// Healthy returns the errors that have lasted longer than after.
func (w *Watch) Healthy(after time.Duration) error {
	var errs []error
	for _, f := range w.Found() {
		if f.isError() && time.Since(f.Since) >= after {
			errs = append(errs, fmt.Errorf("%s (since %s)", f.Text, f.Since.UTC().Format(time.RFC3339)))
		}
	}
	return errors.Join(errs...)
}
