package host

import (
	"context"
	"time"
)

// keepInterval is how often the run directory is looked at: plugins cannot start
// without it.
const keepInterval = time.Second

// keepRunDir makes the run directory again when somebody has removed it, until ctx
// ends.
func (m *Manager) keepRunDir(ctx context.Context) {
	look := time.NewTicker(keepInterval)
	defer look.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		remade, err := m.dir.Keep()
		switch {
		case err != nil && err.Error() != told:
			told = err.Error()
			m.log.Error("run directory is gone and cannot be made again: plugins cannot start, kills are not noted", "error", err)
		case err == nil && remade:
			m.log.Error("run directory was removed and made again: kills in flight are not noted there", "runDir", m.dir.Path())
			fallthrough
		case err == nil:
			told = ""
		}
	}
}
