package eviction

// Layouts lists the layouts that the kubelet knows.
func Layouts() []Layout { return []Layout{LayoutShared, LayoutImageFs, LayoutContainerFs} }

// where returns the canonical name of a filesystem with several names: the kubelet's if there is
// one, else the image filesystem's. In an unknown layout each name stands for itself.
func (l Layout) where(fs Filesystem) Filesystem {
	switch {
	case l == LayoutShared, l == LayoutContainerFs && fs == ContainerFs:
		return NodeFs
	case l == LayoutImageFs && fs == ContainerFs:
		return ImageFs
	default:
		return fs
	}
}

// ContainerFsFrom returns the signal that has the same figure as s, a containerfs signal: the
// nodefs signal if writable layers are on the kubelet's filesystem, else the imagefs signal.
// It returns false for other signals and for an unknown layout.
func (l Layout) ContainerFsFrom(s Signal) (Signal, bool) {
	of, _ := Builtin(s)
	from := l.where(ContainerFs)
	if of.Filesystem != ContainerFs || from == ContainerFs {
		return "", false
	}
	return builtinsWith(func(b *BuiltinSignal) bool { return b.Filesystem == from && b.Definition == of.Definition })[0], true
}

// SameFilesystem returns the signals that have the same figure of the same filesystem as s,
// including s, in the order nodefs, imagefs, containerfs. For a signal without a filesystem
// it returns s alone.
func (l Layout) SameFilesystem(s Signal) []Signal {
	of, _ := Builtin(s)
	if of.Filesystem == "" {
		return []Signal{s}
	}
	return builtinsWith(func(b *BuiltinSignal) bool {
		return b.Definition == of.Definition && l.where(b.Filesystem) == l.where(of.Filesystem)
	})
}

// ServedWith returns the signals, including s, for which the plugin that does c for s does it
// too, in the order of SameFilesystem. nodefs and imagefs have separate thresholds, and so are
// observed separately even on one filesystem; the containerfs threshold follows from another
// signal's, so the plugin that observes that signal observes containerfs too.
func (l Layout) ServedWith(s Signal, c Capability) []Signal {
	switch c {
	case CanMeasure, CanRank, CanReclaim:
		return l.SameFilesystem(s)
	case CanObserve:
		if from, ok := l.ContainerFsFrom(s); ok {
			return []Signal{from, s}
		}
	case CanWatch: // every plugin that can watch is asked
	}
	return []Signal{s}
}
