package eviction

import (
	"errors"
	"fmt"
)

// Capabilities returns all capabilities that the plugin implements, for any signal.
func (p *Plugin) Capabilities() Capability {
	var c Capability
	for n, has := range [...]bool{p.Observer != nil, p.Measurer != nil, p.Watcher != nil, p.Ranker != nil, p.Reclaimer != nil} {
		if has {
			c |= 1 << n // they are in bit order
		}
	}
	return c
}

// For returns the capabilities that the plugin offers for s: none if it does not list s,
// and never one that it does not implement.
func (p *Plugin) For(s Signal) Capability {
	for i := range p.Signals {
		if p.Signals[i].Signal == s {
			if c := p.Signals[i].Capabilities; c != 0 {
				return c & p.Capabilities()
			}
			return p.Capabilities()
		}
	}
	return 0
}

// Observes returns the signals that the plugin observes; the result is never nil.
func (p *Plugin) Observes() []Signal {
	signals := []Signal{}
	for i := range p.Signals {
		if s := p.Signals[i].Signal; p.For(s).Has(CanObserve) {
			signals = append(signals, s)
		}
	}
	return signals
}

// Validate checks that p keeps the contract and returns all violations, joined.
func (p *Plugin) Validate() error {
	var errs []error
	if p.Name == "" {
		errs = append(errs, errors.New("name is empty"))
	}
	if len(p.Signals) == 0 && p.SignalsFor == nil && !p.SignalsFromConfig {
		errs = append(errs, errors.New("signals is empty, want at least one"))
	}
	if p.Capabilities() == 0 {
		errs = append(errs, errors.New("no capability is set, want at least one of Observer, Measurer, Watcher, Ranker, Reclaimer"))
	}
	if p.OwnsLayout && p.Observer == nil {
		errs = append(errs, errors.New("ownsLayout without an Observer, which is what reports the layout"))
	}
	seen := make(map[Signal]bool, len(p.Signals))
	for i, s := range p.Signals {
		at := fmt.Sprintf("signals[%d] %q", i, s.Signal)
		if seen[s.Signal] {
			errs = append(errs, fmt.Errorf("%s: listed twice", at))
		}
		seen[s.Signal] = true
		if missing := s.Capabilities &^ p.Capabilities(); missing != 0 {
			errs = append(errs, fmt.Errorf("%s: offers capabilities that the plugin does not have", at))
		}
		for _, err := range []error{s.validateDefinition(), s.validateCandidates(p.For(s.Signal)), s.validateSteps(p.Reclaimer != nil)} {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", at, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (s *SignalSpec) validateDefinition() error {
	if _, ok := Builtin(s.Signal); ok {
		if s.Definition != nil {
			return errors.New("definition given for a built-in signal, want none")
		}
		return nil
	}
	if err := s.Signal.ValidCustom(); err != nil {
		return err
	}
	if s.Definition == nil {
		return errors.New("definition missing for a custom signal")
	}
	return s.Definition.ValidCustom()
}

func (s *SignalSpec) validateCandidates(can Capability) error {
	if d := s.Definition; d != nil && d.Candidates == RankedPods && !can.Has(CanRank) {
		return errors.New("candidates are those of a ranking, and the plugin does not rank the signal")
	}
	return nil
}

func (s *SignalSpec) validateSteps(canReclaim bool) error {
	if len(s.ReclaimSteps) > 0 && !canReclaim {
		return errors.New("reclaim steps without a Reclaimer")
	}
	seen := make(map[string]bool, len(s.ReclaimSteps))
	for _, step := range s.ReclaimSteps {
		if step.Name == "" || seen[step.Name] {
			return fmt.Errorf("reclaim step %q is empty or listed twice", step.Name)
		}
		seen[step.Name] = true
	}
	return nil
}
