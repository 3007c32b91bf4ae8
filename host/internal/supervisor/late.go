package supervisor

import (
	"context"
	"errors"
)

// mostDoublings is how often the limits of a start are doubled at most: a handshake
// has 80 s then.
const mostDoublings = 3

// noteLate takes note of how an attempt to start ended. On a slow machine the same
// limit would be missed again and again.
func (m *member) noteLate(err error) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(err, context.DeadlineExceeded) {
		m.late = 0
		return
	}
	m.late = min(m.late+1, mostDoublings)
}
