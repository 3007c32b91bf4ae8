package policy

import "time"

const (
	// lastingFor and lastingLooks are how long two observers must have contradicted each
	// other for it to be told, or agreed for it to be over: figures of different moments
	// differ now and then.
	lastingFor   = time.Minute
	lastingLooks = 3
)

// A Contradiction is how two observers of a signal stand to each other. The zero value
// is that they agree.
type Contradiction struct {
	// Lasting: they contradict each other, and have for a while.
	Lasting bool `json:"-"`
	// Since is the first of the looks in a row that made it so.
	Since time.Time `json:"since"`
	// turned is since when, and for how many looks in a row, it has been the other way round.
	turned time.Time
	looks  int
}

// Next returns c after another look.
func (c Contradiction) Next(now time.Time, contradict bool) Contradiction {
	if contradict == c.Lasting {
		c.turned, c.looks = time.Time{}, 0
		return c
	}
	if c.looks == 0 || now.Before(c.turned) { // a clock that was set back begins anew
		c.turned, c.looks = now, 0
	}
	c.looks++
	if c.looks < lastingLooks || now.Sub(c.turned) < lastingFor {
		return c
	}
	return Contradiction{Lasting: contradict, Since: c.turned}
}
