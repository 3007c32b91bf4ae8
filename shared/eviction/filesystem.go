package eviction

// Layouts lists the layouts that the kubelet knows.
func Layouts() []Layout { return []Layout{LayoutShared, LayoutImageFs, LayoutContainerFs} }

// where returns the name that counts of a filesystem which may have several: the
// kubelet's if it is the same as that, else the images'. In an unknown layout each is
// alone.
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

// ContainerFsFrom returns the signal whose filesystem a signal of writable layers is
// about: the images' where they have one of their own that writable layers are on
// too, else the kubelet's. It is false for other signals and for an unknown layout.
func (l Layout) ContainerFsFrom(s Signal) (Signal, bool) {
	of, _ := Builtin(s)
	from := l.where(ContainerFs)
	if of.Filesystem != ContainerFs || from == ContainerFs {
		return "", false
	}
	return builtinsWith(func(b *BuiltinSignal) bool { return b.Filesystem == from && b.Definition == of.Definition })[0], true
}

// SameFilesystem returns the signals that are the same figure of the same filesystem
// as s, s among them: nodefs, imagefs and containerfs in this order. A signal that is
// of no filesystem is alone.
func (l Layout) SameFilesystem(s Signal) []Signal {
	of, _ := Builtin(s)
	if of.Filesystem == "" {
		return []Signal{s}
	}
	return builtinsWith(func(b *BuiltinSignal) bool {
		return b.Definition == of.Definition && l.where(b.Filesystem) == l.where(of.Filesystem)
	})
}

// ServedWith returns the signals that who does c for s serves as well, s among them,
// in the order of SameFilesystem. Kubelet and images have thresholds of their own also
// where they share a filesystem, and so a figure each; only that for writable layers,
// whose threshold follows from another one, is had from who has that one's.
func (l Layout) ServedWith(s Signal, c Capability) []Signal {
	switch c {
	case CanMeasure, CanRank, CanReclaim:
		return l.SameFilesystem(s)
	case CanObserve:
		if from, ok := l.ContainerFsFrom(s); ok {
			return []Signal{from, s}
		}
	case CanWatch: // all are asked
	}
	return []Signal{s}
}
