package loop

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/wake"
	"github.com/evictd/evictd/shared/eviction"
)

// filesystems is what is known of the node's filesystems, and the thresholds
// that follow from it.
type filesystems struct {
	layout eviction.Layout
	// asked: nothing more is to be found out with LayoutOnce.
	asked bool
	// problem is the latest error that was logged.
	problem string
	// split is what of the assignments the layout shows to be for one filesystem.
	split []string
	// inForce are the thresholds of the configuration, with those for writable
	// layers derived once the layout is known.
	inForce []policy.Threshold
}

// wantsLayout reports whether a pass for k asks how the filesystems are laid out.
func (l *Loop) wantsLayout(k wake.Scope) bool {
	return k.Full && (!l.Settings.LayoutOnce || !l.filesystems.asked)
}

// settleLayout takes what the layout's owner says, nil for nothing, and returns
// the thresholds that this pass is to look at. It is an error if the layout is not
// known, without which thresholds of disks would be the wrong ones. Once a layout is known it
// stays until another one is.
func (l *Loop) settleLayout(r *eviction.LayoutReport) ([]policy.Threshold, error) {
	fs := &l.filesystems
	if r == nil {
		return fs.inForce, nil
	}
	if r.ImageFsErr != "" {
		if fs.layout == 0 {
			return nil, fmt.Errorf("eviction manager: failed to get HasDedicatedImageFs: %s", r.ImageFsErr)
		}
		l.noteLayoutProblem("images", r.ImageFsErr)
		return fs.inForce, nil
	}
	if r.ContainerFsErr != "" {
		l.noteLayoutProblem("writable layers", r.ContainerFsErr)
		if fs.layout != 0 {
			return fs.inForce, nil
		}
	} else {
		fs.problem = ""
	}
	fs.asked = true
	layout := r.Layout()
	if layout == fs.layout {
		return fs.inForce, nil
	}
	l.Log.Info("layout of the filesystems", "layout", layout.String(), "former", fs.layout.String())
	first := fs.layout == 0
	fs.layout = layout
	d := l.derive()
	if first {
		return d.First, nil
	}
	return d.Derived, nil
}

// withoutLayout makes the disks' signals unknown, for want of the layout, and goes
// on with the others: the kubelet's manager does nothing at all then, and memory
// would run out meanwhile.
func (l *Loop) withoutLayout(observed map[eviction.Signal]eviction.Observation, why error) []policy.Threshold {
	l.noteLayoutProblem("images", why.Error())
	for s := range observed {
		if builtinFamily(s) == eviction.DiskPressure {
			observed[s] = eviction.Observation{Signal: s, Err: why.Error()}
		}
	}
	return l.filesystems.inForce
}

// withContainerFs adds the signals of writable layers that thresholds may be
// derived for in this pass. The kubelet observes them from its first pass on, so
// that figures which the next one repeats are not news to the new thresholds.
func withContainerFs(signals []eviction.Signal) []eviction.Signal {
	all := slices.Clone(signals)
	for _, s := range signals {
		var derived eviction.Signal
		switch s {
		case eviction.NodeFsAvailable, eviction.ImageFsAvailable:
			derived = eviction.ContainerFsAvailable
		case eviction.NodeFsInodesFree, eviction.ImageFsInodesFree:
			derived = eviction.ContainerFsInodesFree
		default:
			continue
		}
		if !slices.Contains(all, derived) {
			all = append(all, derived)
		}
	}
	return all
}

// derive puts the thresholds in force that follow from configuration and layout.
func (l *Loop) derive() policy.ContainerFs {
	fs := &l.filesystems
	d := policy.WithContainerFs(l.Settings.Thresholds, fs.layout)
	for _, t := range d.Dropped {
		l.Log.Warn("configured threshold does not stand, it follows from another one", "signal", t.Signal, "threshold", t.Value.String())
	}
	fs.inForce = d.Derived
	fs.split = nil
	if l.Settings.Assigned != nil {
		if err := policy.Split(l.Settings.Assigned, fs.layout); err != nil {
			l.Log.Error("assignments split a filesystem, that of nodefs counts, else that of imagefs", "layout", fs.layout.String(), "error", err)
			fs.split = strings.Split(err.Error(), "\n")
		}
	}
	return d
}

// noteLayoutProblem tells once why it is not known where something lives. What was
// known stays; writable layers else count as being with the images.
func (l *Loop) noteLayoutProblem(of, problem string) {
	if l.filesystems.problem != problem {
		l.filesystems.problem = problem
		l.Log.Warn("layout of the filesystems is not known", "of", of, "layout", l.filesystems.layout.String(), "error", problem)
	}
}

// served leaves out thresholds of signals that no plugin observes, nor one that is
// down would: they have no effect, and nothing waits for them.
func (l *Loop) served(roster Roster, thresholds []policy.Threshold) []policy.Threshold {
	return slices.DeleteFunc(slices.Clone(thresholds), func(t policy.Threshold) bool {
		return !t.Defined() || len(roster.Serving(l.filesystems.layout, t.Signal, eviction.CanObserve)) == 0 && l.awaited(roster, t.Signal) == nil
	})
}

// awaited is why nobody observes s although somebody should, by whatever name.
func (l *Loop) awaited(roster Roster, s eviction.Signal) error {
	why := roster.Awaited(s)
	if from, derived := l.filesystems.layout.ContainerFsFrom(s); why == nil && derived {
		return roster.Awaited(from)
	}
	return why
}
