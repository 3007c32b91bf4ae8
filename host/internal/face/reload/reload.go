// Package reload follows the sources of evictd's configuration: files, read again at a signal, and
// a ConfigMap.
//
// It puts nothing in force itself.
package reload

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/evictd/evictd/host/internal/cluster/kubeapi"
	"github.com/evictd/evictd/host/internal/face/config"
)

// key is the key of the configuration in a ConfigMap.
const key = "evictd.yaml"

// Sources of a configuration.
type Sources struct {
	flags     *config.Flags
	signals   <-chan os.Signal
	texts     chan string
	configMap string
}

// New returns the sources that flags name, whose files each of signals reads again, and the
// ConfigMap NAMESPACE/NAME, whose text takes the place of --config; "" for none.
func New(flags *config.Flags, signals <-chan os.Signal, configMap string) *Sources {
	return &Sources{flags: flags, signals: signals, texts: make(chan string), configMap: configMap}
}

// ConfigMap returns the ConfigMap to watch, nil for none. It is watched with mode kubernetes only.
func (s *Sources) ConfigMap(selector, mode string) (*kubeapi.ConfigMap, error) {
	if s.configMap == "" {
		return nil, nil
	}
	namespace, name, ok := strings.Cut(s.configMap, "/")
	if !ok || mode != config.ModeKubernetes {
		return nil, fmt.Errorf("--config-map: %q with mode %q: want NAMESPACE/NAME with mode %q", s.configMap, mode, config.ModeKubernetes)
	}
	return &kubeapi.ConfigMap{Namespace: namespace, Name: name, Selector: selector, Changed: func(ctx context.Context, data map[string]string) {
		select {
		case s.texts <- data[key]:
		case <-ctx.Done():
		}
	}}, nil
}

// Follow calls put with what loads a new configuration until ctx ends. A ConfigMap that has the
// configuration in force, which is inForce at first, is none.
func (s *Sources) Follow(ctx context.Context, inForce config.Config, put func(load func() (config.Config, error)) (config.Config, error), log *slog.Logger) {
	for {
		load := s.flags.LoadDaemon
		select {
		case <-ctx.Done():
			return
		case <-s.signals:
		case text := <-s.texts:
			load = func() (config.Config, error) { return s.flags.LoadDaemonText("ConfigMap "+s.configMap, text) }
			if c, err := load(); err == nil && c.ID() == inForce.ID() {
				continue
			}
		}
		c, err := put(load)
		switch {
		case ctx.Err() != nil: // evictd ends
		case err != nil:
			log.Error("new configuration refused, the former one stays in force", "error", err)
		default:
			inForce = c
			log.Info("new configuration in force")
		}
	}
}
