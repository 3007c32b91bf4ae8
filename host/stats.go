package host

import (
	"context"
	"fmt"
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

// openStats serves the summaries that the embedding program has, or those that
// the configuration names, if there are any.
func (m *Manager) openStats(fetch func(context.Context) ([]byte, error), patience time.Duration) error {
	c := m.config()
	var source summary.Source
	switch {
	case fetch != nil:
		source = summary.FromFunc(fetch, max(c.Summary.Timeout.Duration, patience))
	case c.Source == config.SourceSummary:
		var err error
		if source, err = summary.Open(c.Summary.Options()); err != nil {
			return err
		}
	default:
		return nil
	}
	server, err := summary.Listen(m.dir.Path(), source, m.log)
	if err != nil {
		return err
	}
	m.stats = &statsServer{server: server, layout: func(context.Context) summaryapi.Layout {
		return summaryapi.Layout{InForce: eviction.LayoutNamed(m.config().Summary.Layout)}
	}}
	return nil
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
