package host

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/node/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

// layoutDeadline bounds the query for the layout of the filesystems.
const layoutDeadline = 5 * time.Second

// namedLayout returns the layout that the configuration names.
func namedLayout(c *Config) summaryapi.Layout {
	return summaryapi.Layout{InForce: eviction.LayoutNamed(c.Summary.Layout)}
}

// viewsOf returns a function that announces each view of a pass to a summary server, and updates
// the layout if plugins will be asked for it. With await it waits for the summary, which may take
// an embedding program longer than a plugin's deadline.
func viewsOf(server *summary.Server, layout func(context.Context) summaryapi.Layout, await bool) func(context.Context, eviction.PassView, bool) {
	return func(ctx context.Context, at eviction.PassView, asked bool) {
		if asked {
			server.SetLayout(layout(ctx))
		}
		server.Begin(at)
		if await {
			server.Await(ctx, at)
		}
	}
}

// askLayout asks the embedding program for the layout, like the kubelet's eviction manager. It
// stores the error in cause, because plugins receive only its text.
func askLayout(ctx context.Context, disks DiskInfoProvider, cause *atomic.Pointer[error]) summaryapi.Layout {
	ctx, cancel := context.WithTimeout(ctx, layoutDeadline)
	defer cancel()
	dedicated, err := disks.HasDedicatedImageFs(ctx)
	if err != nil {
		cause.Store(&err)
		return summaryapi.Layout{ImageFsErr: textOf(err)}
	}
	cause.Store(nil)
	l := summaryapi.Layout{InForce: eviction.LayoutShared}
	split, err := disks.HasDedicatedContainerFs(ctx)
	if err != nil {
		split, l.ContainerFsErr = false, textOf(err)
	}
	switch {
	case dedicated && split:
		l.InForce = eviction.LayoutContainerFs
	case dedicated:
		l.InForce = eviction.LayoutImageFs
	}
	return l
}

// textOf returns the error's text, never empty: an empty text would mean no error.
func textOf(err error) string {
	if text := err.Error(); text != "" {
		return text
	}
	return "error without a text"
}
