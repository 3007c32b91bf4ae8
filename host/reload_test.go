package host_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/eviction"
)

// embedded returns an Embedded that was not started, with a plugin of this process.
func embedded(t *testing.T) (*host.Embedded, host.Config) {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := host.DefaultConfig()
	config.RunDir, config.PluginDir = dir, ""
	manager, err := host.NewEmbedded(host.Embedding{
		Config: config, Log: slog.New(slog.DiscardHandler), KillPod: (&reported{}).kill, Recorder: &reported{},
		Plugins: map[string]eviction.Plugin{"nvme": (&drive{}).plugin()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return manager, config
}

// A file that could not be read or parsed was reported in the log alone: the alert on
// refused configurations stayed silent.
func TestAConfigurationThatCannotBeLoadedCountsAsRefused(t *testing.T) {
	manager, config := embedded(t)
	ctx, stop := context.WithCancel(t.Context())
	defer func() {
		stop()
		if err := manager.Wait(); err != nil {
			t.Error(err)
		}
	}()
	if err := manager.Start(ctx, nil, func() []*v1.Pod { return nil }, func(*v1.Pod) bool { return true }, time.Hour); err != nil {
		t.Fatal(err)
	}
	unreadable := errors.New("--config: /etc/evictd/evictd.yaml: permission denied")
	restart := config
	restart.NodeName = "another"
	for _, c := range []struct {
		config host.Config
		err    error
		want   string
	}{
		{config, unreadable, `evictd_config_reloads_total{result="error"} 1`},
		{restart, nil, `evictd_config_reloads_total{result="error"} 2`},
		{config, nil, `evictd_config_reloads_total{result="ok"} 1`},
	} {
		_, err := manager.ReloadFrom(t.Context(), func() (host.Config, error) { return c.config, c.err })
		if c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%v, want %v", err, c.err)
		}
		page := httptest.NewRecorder()
		manager.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		if !strings.Contains(page.Body.String(), c.want+"\n") {
			t.Errorf("no line %s after %v", c.want, err)
		}
	}
}

// The interval belongs to Start. A reload with another one, or none, neither changes nor ends the
// passes: one follows each reload.
func TestAReloadKeepsTheIntervalOfStart(t *testing.T) {
	for _, interval := range []time.Duration{0, time.Hour} {
		manager, config := embedded(t)
		ctx, stop := context.WithCancel(t.Context())
		beside := make(chan error, 1)
		go func() { beside <- manager.Reload(ctx, config) }() // which waits for the start of the passes
		if err := manager.Start(ctx, nil, func() []*v1.Pod { return nil }, func(*v1.Pod) bool { return true }, interval); err != nil {
			t.Fatal(err)
		}
		if err := <-beside; err != nil {
			t.Error(err)
		}
		for range 2 {
			before := manager.Status().Passes
			if err := manager.Reload(ctx, config); err != nil {
				t.Error(err)
			}
			for end := time.Now().Add(10 * time.Second); interval > 0 && manager.Status().Passes == before; {
				if time.Now().After(end) {
					t.Fatalf("no pass after a reload with an interval of %v", interval)
				}
				time.Sleep(time.Millisecond)
			}
		}
		if passes := manager.Status().Passes; interval == 0 && passes > 0 {
			t.Errorf("%d passes, and no request", passes)
		}
		stop()
		if err := manager.Wait(); err != nil {
			t.Error(err)
		}
	}
}
