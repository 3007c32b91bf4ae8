package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/why/replay"
)

// A Timer times repeated passes of a manager with plugin processes over the first step of a
// scenario.
type Timer struct {
	manager *host.Embedded
	dir     string
	cancel  context.CancelFunc
	// measuring holds how long each pass waited for Measure.
	measuring []time.Duration
}

// Measuring returns the median time that a pass waited for the figures of its pods.
func (t *Timer) Measuring() time.Duration {
	all := slices.Sorted(slices.Values(t.measuring))
	return all[len(all)/2]
}

// silent ignores a manager's events.
type silent struct{}

func (silent) NodeEvent(string, string, string)                            {}
func (silent) PodEvent(*v1.Pod, map[string]string, string, string, string) {}

// shared is a node with one filesystem.
type shared struct{}

func (shared) HasDedicatedImageFs(context.Context) (bool, error)     { return false, nil }
func (shared) HasDedicatedContainerFs(context.Context) (bool, error) { return false, nil }

// NewTimer starts a manager with the plugins of a directory. With ready they read their figures
// from a file at the start, otherwise they get the summary in each pass.
func NewTimer(ctx context.Context, s *replay.Scenario, plugins string, ready bool) (_ *Timer, err error) {
	t := &Timer{}
	if t.dir, err = os.MkdirTemp("", "evictd-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(t.dir))
		}
	}()
	c, err := replay.Configuration(s)
	if err != nil {
		return nil, err
	}
	c.RunDir, c.PluginDir = t.dir, plugins
	e := host.Embedding{
		Log: slog.New(slog.DiscardHandler), Recorder: silent{},
		KillPod: func(pod *v1.Pod, _ bool, _ *int64, change func(*v1.PodStatus)) error {
			change(pod.Status.DeepCopy())
			return nil
		},
	}
	nothing := func(context.Context) error { return nil }
	e.Reclaim = map[string]host.ReclaimFunc{"container-gc": nothing, "image-gc": nothing}
	if ready {
		if c.Plugins, err = readFrom(filepath.Join(t.dir, "summary.json"), s); err != nil {
			return nil, err
		}
	} else {
		e.Summary = func(context.Context) ([]byte, error) { return s.Steps[0].Summary, nil }
	}
	e.Config = c
	if t.manager, err = host.NewEmbedded(e); err != nil {
		return nil, err
	}
	ctx, t.cancel = context.WithCancel(ctx)
	active := func() []*v1.Pod { return slices.Clone(s.Pods) }
	if err := t.manager.Start(ctx, shared{}, active, func(*v1.Pod) bool { return true }, 0); err != nil {
		t.cancel()
		return nil, errors.Join(err, t.manager.Wait())
	}
	return t, nil
}

func readFrom(file string, s *replay.Scenario) (map[string]config.Plugin, error) {
	if err := os.WriteFile(file, s.Steps[0].Summary, 0o600); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(map[string]string{"summary": file})
	if err != nil {
		return nil, err
	}
	own := config.Plugin{Config: raw}
	return map[string]config.Plugin{"memory": own, "disk": own, "pid": own}, nil
}

// Pass makes one pass and returns its duration and the number of evicted pods.
func (t *Timer) Pass(ctx context.Context) (time.Duration, int, error) {
	began := time.Now()
	pass, err := t.manager.Synchronize(ctx)
	took := time.Since(began)
	t.measuring = append(t.measuring, time.Duration(pass.Timeline.MeasuringMS*float64(time.Millisecond)))
	for _, o := range pass.Evicted {
		if o.Err != "" {
			return took, 0, fmt.Errorf("evicting: %s", o.Err)
		}
	}
	return took, len(pass.Evicted), err
}

// Stop ends the manager and its plugins.
func (t *Timer) Stop() error {
	t.cancel()
	return errors.Join(t.manager.Wait(), os.RemoveAll(t.dir))
}
