package cgroups

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// lookEvery is the interval of checks without problems, lookAgain with problems.
	lookEvery = time.Minute
	lookAgain = 10 * time.Second
	// mostNamed bounds the pods named in a problem.
	mostNamed = 20
)

// Status describes what is known of the cgroups of pods.
type Status struct {
	// Driver names the cgroup driver in use, empty while undetected. Configured names that of the
	// configuration, SeenBy the source of Driver.
	Driver     string `json:"driver"`
	Configured string `json:"configured,omitempty"`
	SeenBy     string `json:"seenBy,omitempty"`
	// Running is the number of running pods in the last check, Misplaced the number of those
	// without a cgroup where it should be, Pods the first of these.
	Running   int      `json:"running"`
	Misplaced int      `json:"misplaced"`
	Pods      []string `json:"pods,omitempty"`
	// Problem describes what is wrong, or why the cgroups cannot be checked.
	Problem string `json:"problem,omitempty"`

	// unhealthy: the problem prevents evictd from choosing the right pod.
	unhealthy bool
}

// Options configures a Watch.
type Options struct {
	Node       Node
	Configured string
	// Running lists the running pods. It may be nil, if nothing reads their cgroups.
	Running func(context.Context) ([]Pod, error)
	// Tell is called when the driver in use changes, and again after an error.
	Tell func(ctx context.Context, driver string) error
	// Tally receives the number of misplaced pods.
	Tally func(int)
	Log   *slog.Logger
}

// A Watch periodically checks the cgroups of pods in one goroutine. Status and Driver may be called
// from any.
type Watch struct {
	Options

	last     atomic.Pointer[Status]
	reported string
	logged   string
}

// NewWatch returns a watch that has examined the cgroups once, without asking the runtime.
func NewWatch(o Options) *Watch {
	w := &Watch{Options: o}
	w.begin(o.Node.see())
	return w
}

// Driver returns the driver in use, "" if plugins must detect it.
func (w *Watch) Driver() string { return w.last.Load().Driver }

// Status returns the result of the last check.
func (w *Watch) Status() Status { return *w.last.Load() }

// Healthy returns why the right pod cannot be chosen, nil if it can.
func (w *Watch) Healthy() error {
	if s := w.last.Load(); s.unhealthy {
		return errors.New(s.Problem)
	}
	return nil
}

// Begin asks the runtime, without checking pods. It must run before anything reads their cgroups,
// so it does not call Tell: readers start with Driver.
func (w *Watch) Begin(ctx context.Context) {
	w.begin(w.Node.Find(ctx))
}

func (w *Watch) begin(found Found) {
	s := w.judge(found, 0, nil, nil)
	w.last.Store(s)
	w.reported = s.Driver
}

// Run checks periodically until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	for ctx.Err() == nil {
		w.Look(ctx)
		wait := lookEvery
		if s := w.last.Load(); s.Problem != "" || s.Driver == "" {
			wait = lookAgain
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// Look checks once.
func (w *Watch) Look(ctx context.Context) {
	found := w.Node.Find(ctx)
	running, lost, err := w.misplaced(ctx, found.InUse(w.Configured))
	if ctx.Err() != nil {
		return
	}
	s := w.judge(found, running, lost, err)
	w.last.Store(s)
	w.Tally(s.Misplaced)
	w.tell(ctx, s.Driver)
	w.log(s)
}

// judge returns the status, with the worst problem.
func (w *Watch) judge(found Found, running int, lost []Pod, err error) *Status {
	s := &Status{Driver: found.InUse(w.Configured), Configured: w.Configured, SeenBy: found.By, Running: running, Misplaced: len(lost)}
	for _, p := range lost[:min(len(lost), mostNamed)] {
		s.Pods = append(s.Pods, p.Name)
	}
	contradiction := found.Contradicts(s.Configured)
	switch {
	case contradiction != nil:
		s.Problem, s.unhealthy = contradiction.Error(), true
	case s.Misplaced > 0 && s.Misplaced == s.Running && !slices.ContainsFunc(lost, func(p Pod) bool { return p.Containers == nil }):
		s.Problem, s.unhealthy = fmt.Sprintf("none of the %d running pods has the cgroups of all its containers below its own: processes that outlive their grace are left to the container runtime", s.Running), true
	case s.Misplaced > 0 && s.Misplaced == s.Running:
		s.Problem, s.unhealthy = fmt.Sprintf("none of the %d running pods has its cgroup where it should be: cgroupRoot or cgroupDriver may be wrong", s.Running), true
	case found.Driver == "" && s.Configured == "" && s.Running > 0:
		s.Problem, s.unhealthy = fmt.Sprintf("%v; want cgroupDriver in the configuration", found.Err), true
	case s.Misplaced > 0:
		s.Problem = fmt.Sprintf("%d of %d running pods do not have their cgroup, or those of their containers, where it should be", s.Misplaced, s.Running)
	case err != nil:
		s.Problem = fmt.Sprintf("where the cgroups of pods are was not looked at: %v", err)
	}
	return s
}

// misplaced checks the running pods. A missing pod or container may just have ended: only those
// that still run afterwards count.
func (w *Watch) misplaced(ctx context.Context, driver string) (running int, lost []Pod, err error) {
	if w.Running == nil {
		return 0, nil, nil
	}
	pods, err := w.Running(ctx)
	if err != nil {
		return 0, nil, err
	}
	lost, err = w.Node.Misplaced(driver, pods)
	if err != nil || len(lost) == 0 {
		return len(pods), nil, err
	}
	if _, err := w.Node.FS.MemoryHierarchy(); errors.As(err, new(nodefs.MissingController)) {
		return len(pods), nil, err
	}
	if pods, err = w.Running(ctx); err != nil {
		return 0, nil, err
	}
	lost = slices.DeleteFunc(slices.Clone(lost), func(l Pod) bool {
		return !slices.ContainsFunc(pods, func(p Pod) bool {
			return p.UID == l.UID && (l.Containers == nil || slices.ContainsFunc(l.Containers, func(id string) bool { return slices.Contains(p.Containers, id) }))
		})
	})
	return len(pods), lost, nil
}

func (w *Watch) tell(ctx context.Context, driver string) {
	if driver == w.reported {
		return
	}
	if err := w.Tell(ctx, driver); err != nil {
		w.Log.Warn("cgroup driver not passed to plugins", "driver", driver, "error", err)
		return
	}
	w.reported = driver
}

// log logs what has changed since the last check.
func (w *Watch) log(s *Status) {
	text := s.Driver + " " + s.SeenBy + " " + s.Problem
	if text == w.logged {
		return
	}
	w.logged = text
	log := w.Log.With("driver", s.Driver, "configured", s.Configured, "seenBy", s.SeenBy)
	switch {
	case s.unhealthy:
		log.Error("cgroups of pods", "problem", s.Problem, "pods", s.Pods)
	case s.Problem != "":
		log.Warn("cgroups of pods", "problem", s.Problem, "pods", s.Pods)
	default:
		log.Info("cgroups of pods")
	}
}
