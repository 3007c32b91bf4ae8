package supervisor

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/evictd/evictd/shared/launch"
)

// A Sandbox starts processes as confined as a supervisor starts a custom plugin's,
// for who checks a plugin without a supervisor.
type Sandbox struct {
	terms  terms
	how    confinement
	groups *groups
	dir    string
	tell   func(error)

	starts atomic.Uint64
}

// NewSandbox tries whether processes can be confined so, with what is usual for a
// custom plugin where c does not say otherwise. tell is told what a process was not
// limited in nevertheless, from any goroutine: as in a supervisor it runs all the same.
func NewSandbox(c Confinement, tell func(error)) (*Sandbox, error) {
	dir, err := os.MkdirTemp("", "evictd-sandbox-")
	if err != nil {
		return nil, err
	}
	s := &Sandbox{terms: termsOf(map[string]Settings{everybody: {Confinement: c}}, everybody), groups: findGroups(dir), dir: dir, tell: tell}
	if s.how, err = confine(s.terms); err == nil {
		var g *group
		g, err = s.groups.make("sandbox", 0, s.terms)
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
func (s *Sandbox) Confine(path, dir string) (launch.Confinement, error) {
	how := s.how
	if err := how.give(dir); err != nil {
		return nil, err
	}
	// By its descriptor: its user may have no way to the file.
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c := &confinedStart{
		how: how, program: &program{file: file, path: programPath}, strict: true,
		tell: func(err error) {
			if err != nil {
				s.tell(fmt.Errorf("the plugin runs without some of its limits: %w", err))
			}
		},
		left: func(err error) { s.tell(fmt.Errorf("something of a plugin is left: %w", err)) },
	}
	if c.how.group, err = s.groups.make("sandbox", s.starts.Add(1), s.terms); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close removes what was made for the processes, which must have ended.
func (s *Sandbox) Close() {
	s.groups.remove()
	_ = os.Remove(s.dir) // it only has a name
}
