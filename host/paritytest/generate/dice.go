package generate

import "math/rand/v2"

// dice make all choices of a scenario from its seed.
type dice struct{ *rand.Rand }

// in reports true in percent of a hundred cases.
func (d dice) in(percent int) bool { return d.IntN(100) < percent }

// pick returns one of choices; one that is there twice is as likely as two.
func pick[T any](d dice, choices ...T) T { return choices[d.IntN(len(choices))] }

// between returns low to high.
func (d dice) between(low, high int) int { return low + d.IntN(high-low+1) }
