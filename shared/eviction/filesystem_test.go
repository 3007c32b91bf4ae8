package eviction

import (
	"fmt"
	"slices"
	"testing"
)

func TestSignalsOfOneFilesystem(t *testing.T) {
	for layout, want := range map[Layout]string{
		LayoutShared:      "[[nodefs.available imagefs.available containerfs.available] [nodefs.inodesFree imagefs.inodesFree containerfs.inodesFree]]",
		LayoutImageFs:     "[[nodefs.available] [imagefs.available containerfs.available] [nodefs.inodesFree] [imagefs.inodesFree containerfs.inodesFree]]",
		LayoutContainerFs: "[[nodefs.available containerfs.available] [imagefs.available] [nodefs.inodesFree containerfs.inodesFree] [imagefs.inodesFree]]",
		0:                 "[[nodefs.available] [imagefs.available] [containerfs.available] [nodefs.inodesFree] [imagefs.inodesFree] [containerfs.inodesFree]]",
	} {
		var filesystems [][]Signal
		for _, s := range []Signal{NodeFsAvailable, ImageFsAvailable, ContainerFsAvailable, NodeFsInodesFree, ImageFsInodesFree, ContainerFsInodesFree} {
			if same := layout.SameFilesystem(s); same[0] == s {
				filesystems = append(filesystems, same)
			}
		}
		if got := fmt.Sprint(filesystems); got != want {
			t.Errorf("%v: %s, want %s", layout, got, want)
		}
		for _, s := range BuiltinSignals() {
			if same := layout.SameFilesystem(s); !slices.Contains(same, s) {
				t.Errorf("%v: %s is none of its own filesystem: %v", layout, s, same)
			}
		}
		if got := layout.SameFilesystem("acme.example/nvme.spare"); !slices.Equal(got, []Signal{"acme.example/nvme.spare"}) {
			t.Errorf("%v: a custom signal is of %v", layout, got)
		}
	}
}

func TestWritableLayersAreOnAFilesystemThatHasAnotherName(t *testing.T) {
	for layout, want := range map[Layout][]Signal{
		LayoutShared:      {NodeFsAvailable, NodeFsInodesFree},
		LayoutImageFs:     {ImageFsAvailable, ImageFsInodesFree},
		LayoutContainerFs: {NodeFsAvailable, NodeFsInodesFree},
	} {
		for n, s := range []Signal{ContainerFsAvailable, ContainerFsInodesFree} {
			from, ok := layout.ContainerFsFrom(s)
			if !ok || from != want[n] || !slices.Contains(layout.SameFilesystem(s), from) {
				t.Errorf("%v: %s is from %q, %v; want %s", layout, s, from, ok, want[n])
			}
		}
		if from, ok := layout.ContainerFsFrom(ImageFsAvailable); ok {
			t.Errorf("%v: imagefs.available is from %s", layout, from)
		}
	}
	if from, ok := Layout(0).ContainerFsFrom(ContainerFsAvailable); ok {
		t.Errorf("unknown layout: from %s", from)
	}
}
