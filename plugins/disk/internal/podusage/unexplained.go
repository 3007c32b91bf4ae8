package podusage

import (
	"sync"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/shared/eviction"
)

// unexplained remembers, by signal, the amount in use that no pod explains: the operating
// system, images and other data that is not pods'. It was taken when every pod was fully known,
// so that it contains nothing of a pod.
type unexplained struct {
	mu sync.Mutex
	of map[filesystem.Contents]remembered // Used is 0 in the keys
}

// remembered is an unexplained amount. used is what was in use before a part of it was removed,
// 0 if nothing was.
type remembered struct{ amount, used int64 }

// remember stores an unexplained amount that contains nothing of a pod.
func (u *unexplained) remember(s filesystem.Contents, amount int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.Used > 0 {
		s.Used = 0
		u.of[s] = remembered{amount: max(amount, 0)}
	}
}

// grown returns by how much amount exceeds the remembered one: that part may be a pod's. If it is
// less, something else was freed since, and the remembered amount is lowered.
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

// removing makes grown subtract what is removed from now on, when the usage shows it.
func (u *unexplained) removing(contents func(eviction.Signal) (filesystem.Contents, bool)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s, r := range u.of {
		now, _ := contents(s.Signal)
		r.used = max(r.used, now.Used)
		u.of[s] = r
	}
}
