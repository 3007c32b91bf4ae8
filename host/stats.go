package host

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

// layoutDeadline bounds the question which filesystems the node has.
const layoutDeadline = 5 * time.Second

// openStats serves the plugins, in dir, the summaries that the embedding program has, or
// those that the configuration names. It returns nil if there are none.
func openStats(c *Config, dir string, e *embedding, log *slog.Logger) (*summary.Server, error) {
	var (
		source *summary.Source
		err    error
	)
	switch {
	case e != nil && e.Summary != nil:
		source = summary.FromFunc(e.Summary, max(summary.DefaultTimeout, e.MinDeadline))
	case c.Source == config.SourceSummary:
		source, err = summary.Open(c.Summary)
	}
	if source == nil || err != nil {
		return nil, err
	}
	return summary.Listen(dir, source, log)
}

// viewsOf tells a server of summaries of each view of a pass, and of the layout if
// plugins will be asked for it. With await it waits for the summary, which may take an
// embedding program longer than plugins have.
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

// askLayout asks the embedding program, as the kubelet's manager asks the kubelet.
// What it fails with is kept in cause, since plugins receive its text alone.
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

// textOf returns a text that is never empty, since no text would mean no error.
func textOf(err error) string {
	if text := err.Error(); text != "" {
		return text
	}
	return "error without a text"
}
