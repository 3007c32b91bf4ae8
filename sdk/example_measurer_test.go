package sdk_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// threads measures how many threads the pods have. count is behind a function for
// the tests.
type threads struct {
	count func(uid string) (int64, error)
}

// Measure implements eviction.Measurer.
func (t threads) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	for i := range req.Pods {
		if ctx.Err() != nil {
			return ctx.Err() // what was emitted counts, the others are unknown
		}
		m := eviction.Measurement{UID: req.Pods[i].UID, Time: time.Now()}
		n, err := t.count(m.UID)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			m.State = eviction.NoStats // its cgroup is gone: there are no figures of it
		case err != nil:
			m.Err = err.Error() // unknown: the host uses the last figure that it has
		default:
			m.State = eviction.Measured
			m.Processes = eviction.Some(n)
			for _, s := range req.Signals {
				m.Usage = append(m.Usage, eviction.SignalUsage{Signal: s, Value: n})
			}
		}
		emit(m)
	}
	return nil
}

// Pods are measured when a threshold is met, one after the other or side by side.
func Example_measurer() {
	plugin := sdk.Plugin{
		Name:    "threads",
		Signals: sdk.Signals(eviction.PIDAvailable),
		Measurer: threads{count: func(uid string) (int64, error) {
			switch uid {
			case "a":
				return 17, nil
			case "b":
				return 0, fs.ErrNotExist
			default:
				return 0, errors.New("input/output error")
			}
		}},
	}
	req := eviction.MeasureRequest{
		Signals: []eviction.Signal{eviction.PIDAvailable},
		Pods:    []eviction.Pod{{UID: "a"}, {UID: "b"}, {UID: "c"}},
	}
	err := plugin.Measurer.Measure(context.Background(), req, func(m eviction.Measurement) {
		fmt.Println(m.UID, m.State == eviction.Measured, m.State == eviction.NoStats, m.UsageFor(eviction.PIDAvailable), cmp.Or(m.Err, "-"))
	})
	fmt.Println(err)
	// Output:
	// a true false 17 -
	// b false true 0 -
	// c false false 0 input/output error
	// <nil>
}
