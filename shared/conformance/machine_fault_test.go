package conformance

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// These do not run in parallel, as the other tests take memory and give it back.
func TestFiguresThatDoNotFollowTheMachine(t *testing.T) {
	for name, f := range machineFaults() {
		t.Run(name, func(t *testing.T) {
			var err error
			for range 3 { // others on the machine may hide it
				s := newSound()
				p := s.plugin()
				f.spoil(s, &p)
				r, runErr := Value(t.Context(), p, Options{Only: []string{"machine"}, Timeout: 2 * time.Minute})
				if runErr != nil {
					t.Fatal(runErr)
				}
				if err = judge(&r, f.text, f.fails...); err == nil {
					return
				}
			}
			t.Error(err)
		})
	}
}

func machineFaults() map[string]valueFault {
	var looks atomic.Int64
	return map[string]valueFault{
		"used for available": {eachObservation(func(o *eviction.Observation) {
			o.Available = o.Capacity - o.Available
		}), "more available whenever some was taken", []string{"machine-follows"}},
		"0 every other time": {eachObservation(func(o *eviction.Observation) {
			if o.Signal == eviction.MemoryAvailable && looks.Add(1)%2 == 0 {
				o.Available = 0
			}
		}), "memory.available: 0 and ", []string{"machine-follows"}},
	}
}
