package gc

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// ErrNoCapacity corresponds to the event InvalidDiskCapacity: the image filesystem has size 0.
var ErrNoCapacity = errors.New("invalid capacity 0 on image filesystem")

// A ShortError corresponds to the event FreeDiskSpaceFailed: too few images are unused.
type ShortError struct {
	UsedPercent   int64
	CapacityBytes int64
	FreedBytes    int64
	// Kept says what images hold that the settings keep, "" if there are none.
	Kept string
}

// Error implements error, in the kubelet's words.
func (e *ShortError) Error() string {
	text := fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+
		"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
		e.UsedPercent, inUnits(e.CapacityBytes), e.FreedBytes)
	if e.Kept != "" {
		text += " " + e.Kept + "."
	}
	return text
}

// A periodicGC is one periodic run (image_gc_manager.go:GarbageCollect).
type periodicGC struct {
	imageGC
	// wanted returns false once the host requests a GC or the settings have changed.
	wanted func() bool

	path string // of the images, on the node
}

func (g *periodicGC) run(ctx context.Context) (eviction.Reclaimed, error) {
	rest, ix, err := g.unused(ctx)
	if err != nil {
		return eviction.Reclaimed{}, err
	}
	if oldest := time.Duration(*g.settings.ImageMaximumGCAge); oldest > 0 {
		// An image that was never used counts from its detection, unlike in the kubelet, where it is
		// older than any age.
		tooOld := func(c candidate) bool { return min(g.now.Sub(c.lastUsed), g.now.Sub(c.firstDetected)) > oldest }
		old := slices.DeleteFunc(slices.Clone(rest), func(c candidate) bool { return !tooOld(c) })
		rest = slices.DeleteFunc(rest, tooOld)
		g.take(ctx, old, ix, func() bool { return false })
		if len(old) > 0 {
			g.notes = append(g.notes, fmt.Sprintf("%d images unused for more than %v", len(old), oldest))
		}
	}
	if len(g.errs) == 0 && g.wanted() {
		g.byUse(ctx, rest, ix)
	}
	switch {
	case len(g.notes) == 0: // there was nothing to do
	case g.settings.DryRun:
		g.notes = append(g.notes, fmt.Sprintf("dry run: %d images with %s would go", g.counts.removed, inUnits(g.released.Bytes)))
		g.released = eviction.Reclaimed{}
	default:
		g.describe()
	}
	return g.reported(), g.problems(ctx)
}

// byUse removes the first candidates, if the filesystem is too full, until there is enough room.
func (g *periodicGC) byUse(ctx context.Context, candidates []candidate, ix imageIndex) {
	high, low := int64(*g.settings.ImageGCHighThresholdPercent), int64(*g.settings.ImageGCLowThresholdPercent)
	if high == 100 { // only their age counts
		return
	}
	now, err := g.filesystem(ctx)
	if err != nil {
		g.fail(err)
		return
	}
	usedPercent := 100 - share(now.AvailableBytes, 100, now.CapacityBytes)
	if usedPercent < high {
		return
	}
	g.notes = append(g.notes, fmt.Sprintf("image filesystem %d%% used, from %d%% on images go until it is %d%%", usedPercent, high, low))
	wantAvailable := share(now.CapacityBytes, 100-low, 100)
	wantFreed := max(wantAvailable-now.AvailableBytes, 0)
	before := g.released.Bytes
	// The runtime's sizes of images may be too small, for example those of compressed ones.
	roomy := func() bool {
		sample, err := g.statfs(g.path)
		return err == nil && sample.AvailableBytes >= wantAvailable
	}
	enough := func() bool { return g.released.Bytes-before >= wantFreed || roomy() }
	g.take(ctx, candidates, ix, enough)
	if len(g.errs) > 0 || g.over(ctx) || !g.wanted() || g.settings.DryRun {
		return
	}
	if released := g.released.Bytes - before; released < wantFreed && !roomy() {
		g.fail(&ShortError{UsedPercent: usedPercent, CapacityBytes: now.CapacityBytes, FreedBytes: released, Kept: g.counts.keptText(g.settings.keptBy())})
	}
}

// filesystem returns the room on the image filesystem, with AvailableBytes limited to
// CapacityBytes.
func (g *periodicGC) filesystem(ctx context.Context) (nodefs.FilesystemSample, error) {
	info, err := ask(ctx, g.step, g.client.Images.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return nodefs.FilesystemSample{}, fmt.Errorf("ask where the images are: %w", err)
	}
	if len(info.GetImageFilesystems()) == 0 {
		return nodefs.FilesystemSample{}, errors.New("the runtime does not say where the images are")
	}
	g.path = info.GetImageFilesystems()[0].GetFsId().GetMountpoint()
	sample, err := g.statfs(g.path)
	if err != nil {
		return sample, fmt.Errorf("read the room for images: %w", err)
	}
	if sample.CapacityBytes <= 0 {
		return sample, ErrNoCapacity
	}
	sample.AvailableBytes = min(max(sample.AvailableBytes, 0), sample.CapacityBytes)
	return sample, nil
}

// take removes images until there is enough room or it is no longer wanted; in a dry run it only
// counts them.
func (g *periodicGC) take(ctx context.Context, candidates []candidate, ix imageIndex, enough func() bool) {
	if !g.settings.DryRun {
		g.removeAll(ctx, candidates, ix, func() bool { return enough() || !g.wanted() })
		return
	}
	for _, c := range candidates {
		if enough() {
			return
		}
		g.counts.removed++
		g.released = sum(g.released, eviction.Reclaimed{Bytes: clamp(c.image.GetSize())})
	}
}

// share returns n*times/of without overflow; the result must not exceed n or times.
func share(n, times, of int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(times))
	quotient, _ := bits.Div64(high, low, uint64(of))
	return int64(quotient)
}
