package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/evictd/evictd/shared/launch"
)

// A Standalone confines processes as a host confines a custom plugin's, for who
// checks a plugin without a host.
type Standalone struct {
	policy  Policy
	how     confinement
	cgroups *cgroups
	dir     string
	tell    func(error)

	starts atomic.Uint64
}

// NewStandalone tries whether processes can be confined so, with what is usual for a
// custom plugin where c does not say otherwise. tell is told what a process was not
// limited in nevertheless, from any goroutine: as in a host it runs all the same.
func NewStandalone(c Config, tell func(error)) (*Standalone, error) {
	dir, err := os.MkdirTemp("", "evictd-sandbox-")
	if err != nil {
		return nil, err
	}
	s := &Standalone{policy: PolicyFor("", c), cgroups: findCgroups(dir), dir: dir, tell: tell}
	if s.how, err = confine(s.policy); err == nil {
		var g *cgroup
		g, err = s.cgroups.make("sandbox", 0, s.policy)
		err = errors.Join(err, g.end())
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Confine makes ready the confinement of a process of the file at path, and makes
// dir, of its socket, its own.
func (s *Standalone) Confine(path, dir string) (launch.Confinement, error) {
	how := s.how
	if err := how.give(dir); err != nil {
		return nil, err
	}
	// By its descriptor: its user may have no way to the file.
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c := &Sandbox{
		confinement: how, policy: s.policy, program: &program{file: file, path: programPath}, strict: true,
		tell: func(err error) {
			if err != nil {
				s.tell(fmt.Errorf("the plugin runs without some of its limits: %w", err))
			}
		},
		left: func(err error) { s.tell(fmt.Errorf("something of a plugin is left: %w", err)) },
	}
	if c.cgroup, err = s.cgroups.make("sandbox", s.starts.Add(1), s.policy); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close removes what was made for the processes, which must have ended.
func (s *Standalone) Close() {
	s.cgroups.remove()
	_ = os.Remove(s.dir) // it only has a name
}
