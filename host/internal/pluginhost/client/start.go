package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/eviction"
)

// Describe asks the plugin for its description, and for that by a configuration if its signals follow from it.
func (c *Client) Describe(ctx context.Context, with Configuration, describe func(ctx context.Context, config []byte) (eviction.Plugin, error)) error {
	if err := c.describe(ctx, nil, describe); err != nil || !c.remote.SignalsFromConfig {
		return err
	}
	err := c.describe(ctx, append([]byte{}, with.Config...), describe)
	if err == nil && len(c.remote.Signals) == 0 {
		err = fmt.Errorf("describe: %w: signals is empty for its configuration, want at least one", eviction.ErrInvalidReply)
	}
	return err
}

func (c *Client) describe(ctx context.Context, config []byte, describe func(ctx context.Context, config []byte) (eviction.Plugin, error)) error {
	err := c.ask(ctx, "describe", c.Timeouts.Describe, func(ctx context.Context) (err error) {
		c.remote, err = describe(ctx, config)
		return err
	})
	for _, text := range []*string{&c.remote.Version, &c.remote.Description, &c.remote.Vendor, &c.remote.Licence} {
		*text = shorten(*text, maxReasonBytes)
	}
	return err
}

// A Configuration is one for a plugin, with the place of its Config for errors.
type Configuration struct {
	eviction.ConfigureRequest

	Place input.Place
}

// Configure sends the plugin its configuration and remembers the accepted one.
func (c *Client) Configure(ctx context.Context, with Configuration) error {
	req := with.ConfigureRequest
	if c.remote.Configurer == nil && len(req.Config) > 0 {
		return fmt.Errorf("configure: %w: it takes no configuration, want none for it", eviction.ErrRefused)
	}
	if c.remote.Configurer != nil && !c.Configured {
		err := c.ask(ctx, "configure", c.Timeouts.Configure, func(ctx context.Context) error {
			return c.remote.Configurer.Configure(ctx, req)
		})
		if fields, ok := errors.AsType[eviction.FieldErrors](err); ok {
			return refusal{Located(fields, with.Place)}
		}
		if err != nil {
			return err
		}
	}
	c.reported.Store(&req)
	return nil
}

// Knows reports whether req is the plugin's current configuration.
func (c *Client) Knows(req eviction.ConfigureRequest) bool {
	reported := c.reported.Load()
	return reported != nil && reported.Node == req.Node && bytes.Equal(reported.Config, req.Config)
}

// late is the error of a call that was not answered in time.
type late struct{ text string }

func (l late) Error() string { return l.text }

func (late) Is(target error) bool { return target == context.DeadlineExceeded }

// ask makes one of the calls that decide whether the plugin serves at all.
func (c *Client) ask(ctx context.Context, what string, limit time.Duration, f func(context.Context) error) error {
	limit <<= c.Doublings
	own, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begin := time.Now()
	err := f(own)
	c.tell(what, time.Since(begin))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return late{fmt.Sprintf("%s: no answer within %s", what, limit)}
	case errors.Is(err, eviction.ErrUnavailable) && c.Ending != nil:
		if how := c.Ending(); how != "" {
			return fmt.Errorf("%s: the plugin crashed (%s)", what, how)
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Asked is the pass and view of the latest observe request.
type Asked = atomic.Pointer[eviction.PassView]

// NewAsked returns the initial Asked: the view before reclaim, of no pass.
func NewAsked() *Asked {
	a := new(Asked)
	a.Store(&eviction.PassView{View: eviction.ViewBefore})
	return a
}

// probeTries bounds the probes of a new process: a pass, and its summary, may end during the answer.
const probeTries = 3

// Probe lets a new process observe its signals once. It fails if the new process cannot observe a
// signal that the serving one can.
func (c *Client) Probe(ctx context.Context, serves *Client) error {
	signals := c.remote.Observes()
	if len(signals) == 0 {
		return nil
	}
	reply, err := c.probe(ctx, signals)
	if err != nil {
		return err
	}
	reply, err = checkObservations(signals, c.remote.OwnsLayout, c.Relays, reply)
	if err != nil {
		return fmt.Errorf("observe: %w: %w", eviction.ErrInvalidReply, err)
	}
	why := unknown(signals, reply)
	asked := slices.DeleteFunc(serves.remote.Observes(), func(s eviction.Signal) bool { return why[s] == "" })
	if len(asked) == 0 {
		return nil
	}
	known, err := serves.probe(ctx, asked)
	if err != nil {
		return ctx.Err() // The former one is worse.
	}
	var errs []error
	neither := unknown(asked, known)
	for _, s := range asked {
		if neither[s] == "" {
			errs = append(errs, fmt.Errorf("observe: does not know %s, which the former process does: %s", s, why[s]))
		}
	}
	return errors.Join(errs...)
}

// probe observes signals as of the latest pass.
func (c *Client) probe(ctx context.Context, signals []eviction.Signal) (reply eviction.ObserveReply, err error) {
	for range probeTries {
		at := *c.Asked.Load()
		err = c.ask(ctx, "observe", c.Timeouts.Observe, func(ctx context.Context) (err error) {
			reply, err = c.remote.Observer.Observe(ctx, eviction.ObserveRequest{PassView: at, Signals: signals})
			return err
		})
		if err == nil && len(unknown(signals, reply)) == 0 || ctx.Err() != nil || *c.Asked.Load() == at {
			break
		}
	}
	return reply, err
}

// unknown returns the reasons why signals have no figure in a reply.
func unknown(signals []eviction.Signal, reply eviction.ObserveReply) map[eviction.Signal]string {
	why := map[eviction.Signal]string{}
	for _, s := range signals {
		n := slices.IndexFunc(reply.Observations, func(o eviction.Observation) bool { return o.Signal == s })
		switch {
		case n < 0:
			why[s] = "left out of the reply"
		case reply.Observations[n].State == eviction.Unknown:
			why[s] = cmp.Or(reply.Observations[n].Err, "without a reason")
		}
	}
	return why
}
