package gc

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
)

// images holds the records of images and the images that containers mount as volumes.
type images struct {
	records map[string]imageRecord
	// volumes are the images that each container mounts; they never change.
	volumes map[string][]string
	// sandboxes are the images of sandboxes that run, by ID, "" if not known; they never change.
	sandboxes map[string]string
}

// imageRecord holds the times by which image GC orders images.
type imageRecord struct {
	firstDetected time.Time
	lastUsed      time.Time // zero if never
}

// imageGC is one run of image GC.
type imageGC struct {
	*step
	*images
	settings Settings
	now      time.Time
	counts   imageCounts
}

// imageScan holds the images of the node and which of them are in use.
type imageScan struct {
	images []*runtimeapi.Image
	index  imageIndex
	used   map[string]bool
}

// detect lists images before containers, so that the image of a listed container is in use. Images
// found for the first time count as new, as in the kubelet: they may have been pulled a second ago.
func (g *imageGC) detect(ctx context.Context) (imageScan, error) {
	reply, err := ask(ctx, g.step, g.client.Images.ListImages, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return imageScan{}, fmt.Errorf("list images: %w", err)
	}
	out := imageScan{images: reply.GetImages(), index: indexImages(reply.GetImages())}
	if out.used, err = g.used(ctx, out.index); err != nil {
		return imageScan{}, err
	}
	records := make(map[string]imageRecord, len(out.images))
	for _, i := range out.images {
		r, ok := g.records[i.GetId()]
		if !ok {
			r.firstDetected = g.now
		}
		if out.used[i.GetId()] {
			r.lastUsed = g.now
		}
		records[i.GetId()] = r
	}
	g.records = records
	return out, nil
}

// candidate is an image that may be removed.
type candidate struct {
	imageRecord
	image *runtimeapi.Image
}

// run removes all unused images (image_gc_manager.go:DeleteUnusedImages) or, with
// ImageGCToTarget, as many as want requires.
func (g *imageGC) run(ctx context.Context, want eviction.Reclaimed) (eviction.Reclaimed, error) {
	candidates, ix, err := g.unused(ctx)
	if err != nil {
		return eviction.Reclaimed{}, err
	}
	missing := func() eviction.Reclaimed {
		var free eviction.Reclaimed
		for _, r := range g.rooms {
			free = sum(free, g.gained(r))
		}
		return eviction.Reclaimed{Bytes: want.Bytes - free.Bytes, Inodes: want.Inodes - free.Inodes}
	}
	if g.settings.ImageGCToTarget && want != (eviction.Reclaimed{}) {
		g.removeFor(ctx, missing, candidates, ix)
	} else {
		g.removeAll(ctx, candidates, ix, func() bool { return false })
	}
	g.describe()
	if g.counts.kept > 0 {
		if short := missing(); min(short.Bytes, want.Bytes) > 0 || min(short.Inodes, want.Inodes) > 0 {
			g.notes = append(g.notes, g.counts.keptText(g.settings.keptBy()))
		}
	}
	if err := g.problems(ctx); err != nil {
		return g.reported(), fmt.Errorf("wanted to free %d bytes, but freed %d bytes space with errors in image deletion: %w", int64(math.MaxInt64), g.released.Bytes, list{err})
	}
	return g.reported(), nil
}

// removeFor removes images until nothing is missing: each time as many as provide the missing bytes by
// the runtime's figures, or one if inodes are missing, of which there are no figures.
func (g *imageGC) removeFor(ctx context.Context, missing func() eviction.Reclaimed, candidates []candidate, ix imageIndex) {
	enough := func() bool { m := missing(); return m.Bytes <= 0 && m.Inodes <= 0 }
	all := len(candidates)
	for len(candidates) > 0 && !enough() {
		n, size := 1, clamp(candidates[0].image.GetSize())
		for short := missing().Bytes; n < len(candidates) && size < short; n++ {
			size += clamp(candidates[n].image.GetSize())
		}
		g.removeAll(ctx, candidates[:n], ix, enough)
		candidates = candidates[n:]
	}
	if spared := len(candidates); spared > 0 {
		g.notes = append(g.notes, fmt.Sprintf("target reached: kept %d unused images of %d", spared, all))
	}
}

// removeAll removes images that are not in use now, one by one until there is enough, and then
// waits for their space.
func (g *imageGC) removeAll(ctx context.Context, candidates []candidate, ix imageIndex, enough func() bool) {
	before := g.counts.removed
	defer func() {
		if g.counts.removed > before {
			g.awaitRoom(ctx, g.released, roomStalls, enough)
		}
	}()
	for _, next := range candidates {
		if g.over(ctx) || enough() {
			return
		}
		// A pod may have started to use the image meanwhile.
		used, err := g.used(ctx, ix)
		if err != nil {
			g.fail(err)
			return
		}
		if used[next.image.GetId()] {
			g.counts.used++
			continue
		}
		removed, err := g.remove(ctx, next.image)
		if err != nil {
			g.fail(fmt.Errorf("remove image %s: %w", cmp.Or(strings.Join(next.image.GetRepoTags(), ", "), next.image.GetId()), err))
		}
		if removed {
			g.counts.removed++
			g.free(clamp(next.image.GetSize()), 0)
		}
	}
}

// unused detects the images and returns those that may be removed, in the order of removal: by last
// use, then by first detection.
func (g *imageGC) unused(ctx context.Context) (out []candidate, ix imageIndex, err error) {
	seen, err := g.detect(ctx)
	if err != nil {
		return nil, nil, err
	}
	sandbox, err := g.sandboxImages(ctx, seen)
	if err != nil {
		return nil, nil, err
	}
	g.rooms = g.measureRooms(ctx)
	kept := g.settings.Kept()
	for _, i := range seen.images {
		r := g.records[i.GetId()]
		switch {
		case seen.used[i.GetId()]:
			g.counts.used++
		case i.GetPinned() || sandbox[i.GetId()]:
			g.counts.pinned++
		case kept != nil && kept(i.GetRepoTags(), i.GetRepoDigests(), i.GetId()):
			g.counts.kept++
			g.counts.keptBytes = figures.Add(g.counts.keptBytes, clamp(i.GetSize()))
		case g.now.Sub(r.firstDetected) < time.Duration(*g.settings.ImageMinimumGCAge):
			g.counts.young++
		default:
			out = append(out, candidate{r, i})
		}
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(a.lastUsed.Compare(b.lastUsed), a.firstDetected.Compare(b.firstDetected), cmp.Compare(a.image.GetId(), b.image.GetId()))
	})
	return out, seen.index, nil
}

// remove reports whether it has removed the image. It first asks whether the image exists: the
// kubelet removes images too, and the runtime reports success for a missing one.
func (g *imageGC) remove(ctx context.Context, i *runtimeapi.Image) (bool, error) {
	spec := &runtimeapi.ImageSpec{Image: i.GetId(), RuntimeHandler: i.GetSpec().GetRuntimeHandler()}
	there, err := ask(ctx, g.step, g.client.Images.ImageStatus, &runtimeapi.ImageStatusRequest{Image: spec})
	if err != nil && !gone(err) {
		if g.silent > 0 {
			g.stuck++ // the runtime answers other questions between two images
		}
		return false, fmt.Errorf("ask whether it is there: %w", err)
	}
	removed := there.GetImage() != nil
	if removed {
		err = remove(ctx, g.step, g.client.Images.RemoveImage, &runtimeapi.RemoveImageRequest{Image: spec})
		if err != nil && !gone(err) {
			return false, err
		}
		removed = err == nil
	}
	delete(g.records, i.GetId()) // if it is pulled again, it counts as new
	return removed, nil
}

// imageCounts are the counts in the message.
type imageCounts struct {
	removed, used, pinned, kept, young int
	keptBytes                          int64
}

func (g *imageGC) describe() {
	n, kept := g.counts, ""
	if by := g.settings.keptBy(); by != "" {
		kept = fmt.Sprintf("%d by %s, ", n.kept, by)
	}
	g.notes = append(g.notes, fmt.Sprintf("removed %d images, %s by the runtime's figures, inodes unknown; kept %d in use, %d pinned or for sandboxes, %s%d too new",
		n.removed, strings.TrimSuffix(amounts(g.released), " and 0 inodes"), n.used, n.pinned, kept, n.young))
	g.noteRooms()
}

// list prints joined errors in one line like the kubelet: several in brackets.
type list struct{ error }

// Error implements error.
func (l list) Error() string {
	lines := strings.Split(l.error.Error(), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	return "[" + strings.Join(lines, ", ") + "]"
}

// Unwrap returns the joined errors.
func (l list) Unwrap() error { return l.error }
