package expected

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/shared/testos"
)

func listed(entries map[string]config.Plugin) *config.Config {
	return &config.Config{PluginDir: "/plugins", Plugins: entries}
}

func TestWhatMustServe(t *testing.T) {
	c := listed(map[string]config.Plugin{
		"acme": {}, "disk": {}, "off": {Disabled: true}, "optional": {Required: new(bool)}, "gone": {}, "gone-optional": {Required: new(bool)}, "gone-off": {Disabled: true}, "slow": {},
	})
	plugins := []supervisor.Status{
		{Name: "acme", State: supervisor.Refused, Reason: "/plugins/acme: has sha256 a,\nwant b"},
		{Name: "disk", State: supervisor.Running, LastError: "an old one", Replacement: &supervisor.Replacement{State: supervisor.Refused, Reason: "its file is wrong"}},
		{Name: "not-listed", State: supervisor.Refused, Reason: "a reason"},
		{Name: "off", State: supervisor.Disabled},
		{Name: "optional", State: supervisor.Quarantined, Reason: "a reason"},
		{Name: "slow", State: supervisor.Starting},
	}
	var got []string
	for _, err := range Errors(c, plugins) {
		got = append(got, err.Error())
	}
	if diff := cmp.Diff([]string{
		"plugin acme: refused: /plugins/acme: has sha256 a,; want b",
		"plugin gone: is not there: want /plugins/gone or /plugins/gone.sock, or plugins.gone.required: false",
		"plugin slow: starting",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	rows := map[string]string{}
	for _, p := range Plugins(c, plugins) {
		if p.State == supervisor.Missing {
			rows[p.Name] = p.Reason
		}
	}
	if diff := cmp.Diff(map[string]string{
		"gone":          "is not there: want /plugins/gone or /plugins/gone.sock, or plugins.gone.required: false",
		"gone-optional": "is not there: want /plugins/gone-optional or /plugins/gone-optional.sock",
	}, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}

	errs, warnings := CheckRunning(c, plugins, []string{"plugin gone: is not there: want /plugins/gone or /plugins/gone.sock, or plugins.gone.required: false, is \"go\" meant?"})
	if diff := cmp.Diff("running evictd: plugin acme: refused: /plugins/acme: has sha256 a,; want b\nrunning evictd: plugin slow: starting", strings.Join(errs, "\n")); diff != "" {
		t.Errorf("check (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"running evictd: plugin disk was not replaced: its file is wrong"}, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// Each cause is reported once while the plugin does not serve, and again after it has served.
func TestWatchReportsEachCauseOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var now atomic.Pointer[[]Absence]
		reports := make(chan string, 10)
		now.Store(new([]Absence))
		go Watch(ctx, func() []Absence { return *now.Load() }, func(a Absence) { reports <- a.Error() })
		for _, step := range []struct {
			state supervisor.State
			cause string
			lasts time.Duration
			want  []string
		}{
			{supervisor.Starting, "", 9 * time.Second, nil},
			{"", "", 9 * time.Second, nil},
			{supervisor.Backoff, "exit status 3", 9 * time.Second, nil},
			{supervisor.Quarantined, "exit status 3", time.Minute, []string{"plugin acme: quarantined: exit status 3"}},
			{supervisor.Starting, "exit status 3", time.Minute, nil},
			{supervisor.Refused, "has sha256 a, want b", 3 * time.Second, []string{"plugin acme: refused: has sha256 a, want b"}},
			{supervisor.Backoff, "exit status 3", time.Minute, nil},
			{"", "", time.Minute, nil},
			{supervisor.Missing, "is not there", 13 * time.Second, []string{"plugin acme: is not there"}},
			{"", "", time.Minute, nil},
			{supervisor.Backoff, "exit status 3", 13 * time.Second, []string{"plugin acme: backoff: exit status 3"}},
		} {
			absent := []Absence{{"acme", step.state, step.cause}}
			if step.state == "" {
				absent = nil
			}
			now.Store(&absent)
			time.Sleep(step.lasts)
			synctest.Wait()
			var got []string
			for len(reports) > 0 {
				got = append(got, <-reports)
			}
			if diff := cmp.Diff(step.want, got); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", step, diff)
			}
		}
		stop()
	})
}

// The built-in disk plugin has settings in the packages' configuration: removing its file switches its signals off.
func TestABuiltInPluginMayBeRemovedWhateverSettingsItHas(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name     string
		required *bool
		wanted   bool
	}{{"disk", nil, false}, {"disk", &yes, true}, {"acme", nil, true}, {"acme", &no, false}} {
		cfg := &config.Config{PluginDir: t.TempDir(), Plugins: map[string]config.Plugin{c.name: {Required: c.required}}}
		if got := len(NotServing(cfg, nil)) > 0; got != c.wanted {
			t.Errorf("%+v: not serving %v", c, got)
		}
		testos.Chmod(t, cfg.PluginDir, 0o755)
		if errs, _ := Check(cfg); len(errs) > 0 != c.wanted {
			t.Errorf("%+v: check %v", c, errs)
		}
		if got := NotServing(cfg, []supervisor.Status{{Name: c.name, State: supervisor.Refused, Reason: "mode"}}); len(got) > 0 == (c.required == &no) {
			t.Errorf("%+v: refused, but %v", c, got)
		}
	}
}

// A plugin chooses what it says, and said something else each time.
func TestWatchBoundsTheReportsOfAPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		n, reported := 0, 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			Watch(ctx, func() []Absence {
				n++
				return []Absence{{"acme", supervisor.Refused, time.Duration(n).String()}}
			}, func(Absence) { reported++ })
		}()
		time.Sleep(time.Hour)
		stop()
		<-done
		if n < 1000 || reported != mostCauses {
			t.Errorf("%d reports of %d causes, want %d", reported, n, mostCauses)
		}
	})
}
