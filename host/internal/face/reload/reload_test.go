package reload

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/testos"
)

// The files count at a signal, the ConfigMap when it differs from what is in force: a pod that has just started reads the
// same text in both.
func TestWhatIsPutInForce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "evictd.yaml")
	write := func(text string) {
		testos.WriteFile(t, file, text, 0o600)
	}
	write("logLevel: warn")
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags := config.AddFlags(fs)
	if err := fs.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	inForce, err := flags.LoadDaemon()
	if err != nil {
		t.Fatal(err)
	}
	signals, ctx := make(chan os.Signal), t.Context()
	s := New(flags, signals, "ns/name")
	of, err := s.ConfigMap("a=b", config.ModeKubernetes)
	if err != nil || of.Namespace != "ns" || of.Name != "name" || of.Selector != "a=b" {
		t.Fatalf("%+v, %v", of, err)
	}
	var put []string
	done := make(chan struct{})
	follow, stop := context.WithCancel(ctx)
	go func() {
		defer close(done)
		s.Follow(follow, inForce, func(load func() (config.Config, error)) (config.Config, error) {
			c, err := load()
			switch {
			case err != nil:
				put = append(put, "refused")
			case c.LogLevel == "debug": // as a plugin may
				put, err = append(put, "refused"), errors.New("refused")
			default:
				put = append(put, c.LogLevel)
			}
			return c, err
		}, slog.New(slog.DiscardHandler))
	}()
	change := func(text string) { of.Changed(ctx, map[string]string{"evictd.yaml": text}) }
	change("logLevel: warn # as in the file")
	change("logLevel: error")
	change("logLevel: error")
	change("logLevel: debug")
	change("logLevel: error # again")
	change("loglevel: info")
	signals <- syscall.SIGHUP
	signals <- syscall.SIGHUP
	change("logLevel: warn")
	stop()
	<-done
	if diff := cmp.Diff([]string{"error", "refused", "refused", "warn", "warn"}, put); diff != "" {
		t.Errorf("put in force (-want +got):\n%s", diff)
	}
}

func TestAConfigMapHasANamespaceAndAnAPIServer(t *testing.T) {
	for name, mode := range map[string]string{"evictd": config.ModeKubernetes, "evictd/evictd": config.ModeCRI} {
		if _, err := New(nil, nil, name).ConfigMap("", mode); err == nil || !strings.Contains(err.Error(), `want NAMESPACE/NAME with mode "kubernetes"`) {
			t.Errorf("%s with mode %s: %v", name, mode, err)
		}
	}
	if of, err := New(nil, nil, "").ConfigMap("", config.ModeCRI); of != nil || err != nil {
		t.Errorf("without a name: %v, %v", of, err)
	}
}
