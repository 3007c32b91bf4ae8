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
)

// imageRecord is what is remembered of an image.
type imageRecord struct {
	firstDetected time.Time
	lastUsed      time.Time // zero if never
}

// Detect looks at the images once and notes which are new and which are used. The
// kubelet does so at its start and every five minutes. It waits for a GC that runs:
// what that removes must not be noted as there.
func (c *Collector) Detect(ctx context.Context) error {
	s := c.newStep(nil)
	if err := c.takeTurn(ctx, s); err != nil {
		return err
	}
	defer func() { <-c.turn }()
	_, err := c.detect(ctx, s, c.now())
	return err
}

// census is what a look at the images found.
type census struct {
	images []*runtimeapi.Image
	index  imageIndex
	used   map[string]bool
}

// detect lists images before containers, so that a container's image is in use as
// soon as both are known. Images found at the first look count as new, as in the
// kubelet: one of them may have been pulled a second ago.
func (c *Collector) detect(ctx context.Context, s *step, now time.Time) (census, error) {
	reply, err := ask(ctx, s, c.client.Images.ListImages, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return census{}, fmt.Errorf("list images: %w", err)
	}
	out := census{images: reply.GetImages(), index: indexImages(reply.GetImages())}
	if out.used, err = c.used(ctx, s, out.index); err != nil {
		return census{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	records := make(map[string]imageRecord, len(out.images))
	for _, i := range out.images {
		r, ok := c.images[i.GetId()]
		if !ok {
			r.firstDetected = now
		}
		if out.used[i.GetId()] {
			r.lastUsed = now
		}
		records[i.GetId()] = r
	}
	c.images = records
	return out, nil
}

// candidate is an image that may go.
type candidate struct {
	imageRecord
	image *runtimeapi.Image
}

// freeImages removes what it can (image_gc_manager.go:DeleteUnusedImages).
func (c *Collector) freeImages(ctx context.Context, s *step) (eviction.Reclaimed, error) {
	now := c.now()
	seen, err := c.detect(ctx, s, now)
	if err != nil {
		return eviction.Reclaimed{}, err
	}
	sandbox, err := c.sandboxImages(ctx, s, seen)
	if err != nil {
		return eviction.Reclaimed{}, err
	}
	s.rooms = s.measureRooms(ctx)
	var counts imageCounts
	for _, next := range c.candidates(seen, sandbox, now, &counts) {
		if s.over(ctx) {
			break
		}
		// A pod may have begun to use the image while others were removed.
		used, err := c.used(ctx, s, seen.index)
		if err != nil {
			s.fail(err)
			break
		}
		if used[next.image.GetId()] {
			counts.used++
			continue
		}
		removed, err := c.removeImage(ctx, s, next.image)
		if err != nil {
			s.fail(fmt.Errorf("remove image %s: %w", nameOf(next.image), err))
		}
		if removed {
			counts.removed++
			s.free(clamp(next.image.GetSize()), 0)
		}
	}
	counts.describe(s)
	if err := s.problems(ctx); err != nil {
		return s.told(), fmt.Errorf("wanted to free %d bytes, but freed %d bytes space with errors in image deletion: %w", int64(math.MaxInt64), s.freed.Bytes, list{err})
	}
	return s.told(), nil
}

// candidates are in the order in which they go: least recently used, then first
// detected.
func (c *Collector) candidates(seen census, sandbox map[string]bool, now time.Time, counts *imageCounts) []candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []candidate
	for _, i := range seen.images {
		r := c.images[i.GetId()]
		switch {
		case seen.used[i.GetId()]:
			counts.used++
		case i.GetPinned() || sandbox[i.GetId()]:
			counts.pinned++
		case now.Sub(r.firstDetected) < time.Duration(*c.settings.ImageMinimumGCAge):
			counts.young++
		default:
			out = append(out, candidate{r, i})
		}
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(a.lastUsed.Compare(b.lastUsed), a.firstDetected.Compare(b.firstDetected), cmp.Compare(a.image.GetId(), b.image.GetId()))
	})
	return out
}

// removeImage reports whether it has removed the image. The kubelet removes images
// as well, and the runtime is content when there is none: it is asked before.
func (c *Collector) removeImage(ctx context.Context, s *step, i *runtimeapi.Image) (bool, error) {
	spec := &runtimeapi.ImageSpec{Image: i.GetId(), RuntimeHandler: i.GetSpec().GetRuntimeHandler()}
	there, err := ask(ctx, s, c.client.Images.ImageStatus, &runtimeapi.ImageStatusRequest{Image: spec})
	if err != nil && !gone(err) {
		if s.silent > 0 {
			s.stuck++ // between two images the runtime answers other questions
		}
		return false, fmt.Errorf("ask whether it is there: %w", err)
	}
	removed := there.GetImage() != nil
	if removed {
		err = s.remove(ctx, func(ctx context.Context) error {
			_, err := c.client.Images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: spec})
			return err
		})
		if err != nil && !gone(err) {
			return false, err
		}
		removed = err == nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.images, i.GetId()) // if it is pulled again it is new
	return removed, nil
}

// imageCounts are for the message.
type imageCounts struct{ removed, used, pinned, young int }

func (n imageCounts) describe(s *step) {
	s.notes = append(s.notes, fmt.Sprintf("removed %d images, %s by the runtime's figures, inodes unknown; kept %d in use, %d pinned or for sandboxes, %d too new",
		n.removed, strings.TrimSuffix(amounts(s.freed), " and 0 inodes"), n.used, n.pinned, n.young))
	s.noteRooms()
}

func nameOf(i *runtimeapi.Image) string {
	return cmp.Or(strings.Join(i.GetRepoTags(), ", "), i.GetId())
}

// list prints joined errors in one line, as the kubelet does: several in brackets.
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
