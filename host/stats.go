package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

// layoutDeadline bounds the question which filesystems the node has.
const layoutDeadline = 5 * time.Second

// A statsServer serves the plugins the kubelet's stats summary of each pass. A nil
// pointer serves none: plugins then read sources of their own.
type statsServer struct {
	server *summary.Server
	layout func(context.Context) summaryapi.Layout
}

// openStats serves, in dir, the summaries that the embedding program has, or those
// that the configuration names, if there are any.
func openStats(config func() *Config, dir string, e *embedding, log *slog.Logger) (*statsServer, error) {
	source, err := statsSource(config(), e)
	if source == nil || err != nil {
		return nil, err
	}
	server, err := summary.Listen(dir, source, log)
	if err != nil {
		return nil, err
	}
	return &statsServer{server: server, layout: func(context.Context) summaryapi.Layout {
		return summaryapi.Layout{InForce: eviction.LayoutNamed(config().Summary.Layout)}
	}}, nil
}

func statsSource(c *Config, e *embedding) (summary.Source, error) {
	switch {
	case e != nil && e.Summary != nil:
		return summary.FromFunc(e.Summary, max(c.Summary.Timeout.Duration, e.Patience)), nil
	case c.Source == config.SourceSummary:
		return summary.Open(c.Summary.Options())
	default:
		return nil, nil //nolint:nilnil // plugins then read sources of their own
	}
}

// begin tells the server of a view of a pass, and of the layout if plugins will
// be asked for it.
func (f *statsServer) begin(ctx context.Context, at eviction.PassView, layout bool) {
	if layout {
		ctx, cancel := context.WithTimeout(ctx, layoutDeadline)
		f.server.SetLayout(f.layout(ctx))
		cancel()
	}
	f.server.Begin(at)
}

func (f *statsServer) socket() string {
	if f == nil {
		return ""
	}
	return f.server.Socket()
}

// reachable reports that plugins do not find the socket any more. One cannot be put
// in its place, since it is in use by those who found it.
func (f *statsServer) reachable() error {
	if f == nil {
		return nil
	}
	if _, err := os.Lstat(f.server.Socket()); err != nil {
		return fmt.Errorf("socket of summaries is gone, plugins that start do not find it: restart evictd: %w", err)
	}
	return nil
}

func (f *statsServer) close() error {
	if f == nil {
		return nil
	}
	//nolint:forbidigo // there is no caller's context at the end, and Close limits itself
	return f.server.Close(context.Background())
}

// askLayout asks the embedding program, as the kubelet's manager asks the kubelet.
func askLayout(ctx context.Context, disks DiskInfoProvider) summaryapi.Layout {
	dedicated, err := disks.HasDedicatedImageFs(ctx)
	if err != nil {
		return summaryapi.Layout{ImageFsErr: textOf(err)}
	}
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

// textOf is never empty, since no text would mean no error.
func textOf(err error) string {
	if text := err.Error(); text != "" {
		return text
	}
	return "error without a text"
}
