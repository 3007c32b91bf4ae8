package supervisor

// publish puts who serves what now in force. The mutex is held.
func (s *Supervisor) publish() {
	s.current.Publish(s.newRegistry())
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

// condemn takes an instance out of service and has it ended as soon as no pass
// needs it. The mutex is held.
func (s *Supervisor) condemn(i *process, why sentence) {
	if i.condemned != nil {
		return
	}
	i.condemned = &why
	close(i.out)
	s.publish()
	if i.conn == nil {
		signal(s.rescan) // There is no process whose end would bring up another one.
	}
}
