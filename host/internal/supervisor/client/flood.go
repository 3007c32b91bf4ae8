package client

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// mostWakes is how many wakes a second a plugin may send. The host looks
	// twenty times a second at most, whatever it hears.
	mostWakes = 500
	// mostProgress is how often a second a reclaim step may tell its progress.
	mostProgress = 10_000
)

// A flood counts the messages of one stream. What is too much is not listened to:
// reading costs the host as much as sending costs the plugin, and what has been sent
// would be read for minutes after. The zero flood with most set is ready.
type flood struct {
	of    string
	most  int
	since time.Time
	n     int
}

// add counts a message. It returns an error when it is one too many within a
// second.
func (f *flood) add(now time.Time) error {
	if now.Sub(f.since) >= time.Second {
		f.since, f.n = now, 0
	}
	if f.n++; f.n > f.most {
		return fmt.Errorf("%w: more than %d %s within a second", eviction.ErrInvalidReply, f.most, f.of)
	}
	return nil
}
