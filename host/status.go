package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/expected"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/node/cgroups"
	"github.com/evictd/evictd/host/internal/node/podsource/listing"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/shared/eviction"
)

// passAllowance is added to the interval before a missing pass counts as stuck.
const passAllowance = 15 * time.Second

// staleAfter is the number of intervals without a pass after which the host is not healthy.
const staleAfter = 3

// Status is the document that /status serves.
type Status struct {
	Version   string    `json:"version"`
	NodeName  string    `json:"nodeName"`
	StartTime time.Time `json:"startTime"`
	DryRun    bool      `json:"dryRun"`
	// Compatibility is the minor version of Kubernetes whose kubelet decides the same way.
	Compatibility string `json:"compatibility"`
	// NotReady is the reason why /healthz fails; empty if it succeeds.
	NotReady string `json:"notReady,omitempty"`
	loop.Snapshot
	// Inspection lists problems of the node or the configuration, in the words of evictctl check.
	Inspection []inspect.Lasting   `json:"inspection,omitempty"`
	Cgroups    cgroups.Status      `json:"cgroups"`
	Plugins    []supervisor.Status `json:"plugins"`
	Events     []Event             `json:"events"`
}

// Status returns the manager's current status. It may be called at any time.
func (m *Manager) Status() Status {
	c, snapshot := m.config(), m.loop.Snapshot()
	s := Status{
		Version:       m.version,
		Compatibility: c.Kubernetes(),
		NodeName:      c.NodeName,
		StartTime:     m.started,
		DryRun:        c.DryRun,
		Snapshot:      *snapshot,
		Inspection:    m.owner.inspected(),
		Cgroups:       m.cgroups.Status(),
		Plugins:       expected.Plugins(c, m.supervisor.StatusIn(eviction.LayoutNamed(snapshot.Layout))),
		Events:        m.recorder.events(),
	}
	if err := m.healthy(&s.Snapshot); err != nil {
		s.NotReady = err.Error()
	}
	return s
}

// healthy returns why the manager cannot do its work and which required plugins do not serve, nil if
// there is nothing to report.
func (m *Manager) healthy(s *loop.Snapshot) error {
	c := m.config()
	errs := expected.Errors(c, m.supervisor.Status())
	if err := late(s, c.MonitoringInterval.Duration); err != nil {
		return errors.Join(append(errs, err)...)
	}
	observed := make(map[eviction.Signal]bool, len(s.Signals))
	for _, o := range s.Signals {
		observed[o.Signal] = o.State != decision.StateUnknown
	}
	errs = append(append(errs, m.cgroups.Healthy()), m.owner.unhealthy()...)
	if err := s.Unevictable(); err != nil && c.Mode == config.ModeCRI {
		errs = append(errs, fmt.Errorf("%w; want manifests in podManifestDir, or beside a kubelet mode %q", err, config.ModeKubernetes))
	} else {
		errs = append(errs, err)
	}
	errs = append(errs, ineffective(s)...)
	for _, r := range c.RequiredSignals {
		if !observed[eviction.Signal(r)] {
			errs = append(errs, fmt.Errorf("required signal %s is not observed", r))
		}
	}
	return errors.Join(errs...)
}

// late returns an error if no pass has concluded anything for a while.
func late(s *loop.Snapshot, interval time.Duration) error {
	age, limit := time.Since(s.Time), staleAfter*interval+passAllowance
	switch {
	case s.Time.IsZero():
		return errors.New("no pass has concluded anything yet")
	case interval > 0 && age > limit: // otherwise only Synchronize makes passes
		return fmt.Errorf("the last pass that concluded anything ended %v ago, want at most %v", age.Round(time.Second), limit)
	}
	return nil
}

// ineffective returns an error for each hard threshold that has had no effect for a while.
func ineffective(s *loop.Snapshot) (errs []error) {
	for _, o := range s.Signals {
		hard := slices.ContainsFunc(s.Thresholds, func(t decision.Threshold) bool { return t.Signal == o.Signal && t.Hard() })
		if hard && !o.UnknownSince.IsZero() && time.Since(o.UnknownSince) >= listing.UnhealthyAfter {
			errs = append(errs, fmt.Errorf("%s is unknown since %s and its hard threshold has no effect: %s", o.Signal, o.UnknownSince.UTC().Format(time.RFC3339), o.Err))
		}
	}
	return errs
}

// Handler serves /healthz, /metrics, /status and /ranking?signal=SIGNAL. Status and rankings name
// pods, and a ranking measures them: they are for administrators.
func (m *Manager) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.metrics.Handler())
	mux.Handle("GET /healthz", healthz(func() error { return m.healthy(m.loop.Snapshot()) }))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		text, err := document(m.Status())
		send(w, text, err)
	})
	mux.HandleFunc("GET /ranking", func(w http.ResponseWriter, r *http.Request) {
		text, err := m.ranking(r.Context(), eviction.Signal(r.URL.Query().Get("signal")))
		if errors.Is(err, loop.ErrNoThreshold) {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		send(w, text, err)
	})
	return mux
}

// healthz answers with what healthy returns.
func healthz(healthy func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	})
}

// ranking returns the current ranking of the pods for a signal as JSON. Rankings are made one at a
// time.
func (m *Manager) ranking(ctx context.Context, s eviction.Signal) ([]byte, error) {
	select {
	case m.ranked <- struct{}{}:
		defer func() { <-m.ranked }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d, err := loop.Ranking(ctx, m.loop, s)
	if err != nil {
		return nil, err
	}
	d.Node, d.Evictd = m.config().NodeName, m.version
	m.records.Before(d)
	return document(d)
}

// document returns v as JSON.
func document(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return text.Bytes(), err
}

func send(w http.ResponseWriter, text []byte, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // on error the client is gone
}
