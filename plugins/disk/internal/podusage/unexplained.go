package podusage

import (
	"sync"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/shared/eviction"
)

// unexplained remembers how much no pod explains of what is in use, by signal: the
// operating system, images, and whatever else is not pods'. It is of the last time when all
// of each pod was known, so that nothing of a pod was in it.
type unexplained struct {
	mu sync.Mutex
	of map[filesystem.Contents]remembered // Used is 0 in the keys
}

// remembered is an amount, and what was in use before something of it was removed, 0 if
// nothing was.
type remembered struct{ amount, used int64 }

// remember takes note of an amount of which nothing is a pod's.
func (u *unexplained) remember(s filesystem.Contents, amount int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.Used > 0 {
		s.Used = 0
		u.of[s] = remembered{amount: max(amount, 0)}
	}
}

// grown returns by how much an amount is more than what is remembered, and thus may be a
// pod's: all of it if nothing is. Where it is less, others have given something back since.
func (u *unexplained) grown(s filesystem.Contents, amount int64) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	used := s.Used
	s.Used, amount = 0, max(amount, 0)
	before := u.of[s]
	left := max(before.amount-max(before.used-used, 0), 0)
	u.of[s] = remembered{amount: min(left, amount)}
	return max(amount-left, 0)
}

// removing has what is removed from now on taken off, as soon as it shows.
func (u *unexplained) removing(contents func(eviction.Signal) (filesystem.Contents, bool)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s, r := range u.of {
		now, _ := contents(s.Signal)
		r.used = max(r.used, now.Used)
		u.of[s] = r
	}
}
