package supervisor

import "fmt"

// publish makes the roster anew. The mutex is held.
func (s *Supervisor) publish() {
	var usable []*Instance
	for _, m := range s.members {
		if m.instance != nil && m.instance.condemned == nil {
			usable = append(usable, m.instance)
		}
	}
	s.roster = newRoster(usable, s.assigned, s.slow)
	signal(s.changed)
}

// kickRefused ends the waiting of those that might serve now that others serve
// less. The mutex is held.
func (s *Supervisor) kickRefused() {
	s.freed++
	for _, m := range s.members {
		if m.state == Refused {
			signal(m.kick)
		}
		if m.replacement != nil && m.replacement.State == Refused {
			signal(m.renew)
		}
	}
}

// kickAll ends the waiting of those that might serve now. The mutex is held.
func (s *Supervisor) kickAll() {
	s.changes++
	for _, m := range s.members {
		signal(m.kick)
	}
}

// signal sends to a channel that coalesces, drain empties it.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// count takes note of how a call went, and condemns a process that does not
// answer any more. Ending a plugin of this process would end nothing: what hangs
// in it goes on, and the plugin is left alone as long as it does (direct).
func (s *Supervisor) count(i *Instance, c call, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.misses.add(c, v) && i.conn != nil {
		s.condemn(i, sentence{why: fmt.Errorf("no answer to %d calls in a row, the last one %s", missesToKill, c), hung: true})
	}
}

// condemn takes an instance out of service and has it ended as soon as no pass
// needs it. The mutex is held.
func (s *Supervisor) condemn(i *Instance, why sentence) {
	if i.condemned != nil {
		return
	}
	i.condemned = &why
	close(i.out)
	s.publish()
	if i.conn == nil {
		signal(s.rescan) // There is no process whose end would bring up another one.
	}
	i.execute()
}

// blame records the latest thing that went wrong with an instance, and reports
// whether it is something new.
func (s *Supervisor) blame(i *Instance, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[i.Name]; m != nil {
		m.lastError = err
	}
	news := i.blamed != err.Error()
	i.blamed = err.Error()
	return news
}
