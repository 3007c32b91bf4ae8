package host

import "context"

// ReloadFrom is Reload with what load returns. A configuration that cannot be
// loaded is one that is refused, and counts as such.
func (m *Manager) ReloadFrom(ctx context.Context, load func() (Config, error)) (Config, error) {
	c, err := load()
	if err != nil {
		m.metrics.Reloaded(err)
		return Config{}, err
	}
	return c, m.Reload(ctx, c)
}
