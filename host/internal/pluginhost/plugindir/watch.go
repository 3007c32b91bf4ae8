package plugindir

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// debounce is the time without a change after which the plugin directory is scanned; after
	// maxDebounce it is scanned anyway.
	debounce    = 20 * time.Millisecond
	maxDebounce = 200 * time.Millisecond
	// slowRescan finds changes without events: lost events, links to links, filesystems that have
	// none. blindRescan applies if there are no events at all.
	slowRescan  = 10 * time.Second
	blindRescan = time.Second
)

// A Watch reports when something may have changed in the plugin directory. It also watches the
// parent directory, since the directory may be replaced, and the targets of links.
type Watch struct {
	dir string
	log *slog.Logger
	// events is nil if the kernel provides none.
	events *fsnotify.Watcher
	// targets holds the files that links in dir lead to.
	targets map[string]bool
}

// NewWatch starts watching, so that no later change is missed. Run must follow.
func NewWatch(dir string, log *slog.Logger) *Watch {
	w := &Watch{dir: filepath.Clean(dir), log: log}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("plugin directory cannot be watched, it is looked at each second instead", "pluginDir", w.dir, "error", err)
		return w
	}
	w.events = events
	if err := events.Add(filepath.Dir(w.dir)); err != nil {
		log.Warn("directory above the plugin directory cannot be watched, a new plugin directory is found within seconds only",
			"pluginDir", dir, "error", err)
	}
	w.follow()
	return w
}

// follow watches the present directory.
func (w *Watch) follow() {
	if w.events == nil {
		return
	}
	// It may have been replaced. The scan that follows sees changes in between, and reports a
	// missing directory.
	_ = w.events.Remove(w.dir)
	if err := w.events.Add(w.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.log.Warn("plugin directory cannot be watched, it is looked at each 10 seconds", "pluginDir", w.dir, "error", err)
	}
	w.followLinks()
}

// followLinks watches the directories that links lead to, where a file may appear later.
func (w *Watch) followLinks() {
	entries, _ := os.ReadDir(w.dir) // the scan reports what is wrong
	w.targets = map[string]bool{}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(w.dir, e.Name()))
		if err != nil || !pluginName(e.Name()) {
			continue
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(w.dir, target)
		}
		w.targets[filepath.Clean(target)] = true
		_ = w.events.Add(filepath.Dir(target)) // slowRescan finds a file whose directory cannot be watched
	}
}

// Run calls look, which scans the directory, after changes and periodically, until ctx ends.
func (w *Watch) Run(ctx context.Context, look func()) {
	var (
		events <-chan fsnotify.Event
		errs   <-chan error
		every  = blindRescan
		latest time.Time // when the next scan is due, zero if none is
	)
	if w.events != nil {
		defer func() { _ = w.events.Close() }()
		events, errs, every = w.events.Events, w.events.Errors, slowRescan
	}
	slow := time.NewTicker(every)
	defer slow.Stop()
	var quiet <-chan time.Time
	soon := func() {
		now := time.Now()
		if latest.IsZero() {
			latest = now.Add(maxDebounce)
		}
		quiet = time.After(min(debounce, latest.Sub(now)))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-events:
			switch {
			case !ok: // The kernel sends no more events.
				events = nil
				slow.Reset(blindRescan)
			case e.Name == w.dir || w.targets[e.Name] || filepath.Dir(e.Name) == w.dir && pluginName(filepath.Base(e.Name)):
				soon()
			}
		case err, ok := <-errs:
			if !ok {
				errs = nil
				continue
			}
			w.log.Warn("events of the plugin directory were lost, it is looked at now", "pluginDir", w.dir, "error", err)
			soon()
		case <-quiet:
			latest = time.Time{}
			w.follow()
			look()
		case <-slow.C:
			w.follow()
			look()
		}
	}
}
