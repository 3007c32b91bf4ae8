package sdk_test

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// leases observes how many of the node's licenses are left. What it reads is behind
// a function, so that tests can do without the license server.
type leases struct {
	read func(context.Context) (free, total int64, err error)
}

// Observe implements eviction.Observer.
func (l leases) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	var reply eviction.ObserveReply
	for _, s := range req.Signals { // only what is asked for
		o := eviction.Observation{Signal: s}
		free, total, err := l.read(ctx) // ends with ctx, which has a deadline
		switch {
		case err != nil:
			o.Err = err.Error() // unknown: nothing is concluded from it
		case total == 0:
			o.State = eviction.Absent // the server says that this node needs none
		default:
			o.State, o.Available, o.Capacity, o.Time = eviction.Observed, free, total, time.Now()
		}
		reply.Observations = append(reply.Observations, o)
	}
	return reply, nil
}

// A custom signal: a definition, and an observer. With evictionHard
// {acme.example/licenses.free: 10%} it evicts, by the host's order if the plugin has
// none.
func Example_customSignal() {
	const signal = "acme.example/licenses.free"
	plugin := sdk.Plugin{
		Name: "licenses",
		Signals: []eviction.SignalSpec{{
			Signal: signal,
			Definition: &eviction.Definition{
				Unit:      "licenses",
				Format:    eviction.FormatDecimalSI,
				Resource:  "acme.example/licenses",
				Condition: "acme.example/LicensePressure",
			},
		}},
		Observer: leases{read: func(context.Context) (free, total int64, err error) { return 3, 40, nil }},
	}
	fmt.Println(plugin.Validate())

	reply, err := plugin.Observer.Observe(context.Background(), eviction.ObserveRequest{Signals: []eviction.Signal{signal}})
	o := reply.Observations[0]
	fmt.Println(o.Signal, o.Available, "of", o.Capacity, err)
	// Output:
	// <nil>
	// acme.example/licenses.free 3 of 40 <nil>
}
