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

// A file that could not be read or parsed was reported in the log alone: the alert on
// refused configurations stayed silent.
func TestAConfigurationThatCannotBeLoadedCountsAsRefused(t *testing.T) {
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
