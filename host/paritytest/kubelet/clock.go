package kubelet

import (
	"time"

	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
)

// cleanupTimeout is the kubelet's time limit for clean-up (podCleanupTimeout), polled each second.
const cleanupTimeout = 30 * time.Second

// passClock is the clock of a pass. It stands still except in await.
type passClock struct {
	*testclock.FakeClock

	// asked receives a value each time the kubelet is about to wait for the other two.
	asked          chan struct{}
	timeout, ticks chan time.Time
}

func newClock(start time.Time) *passClock {
	return &passClock{
		FakeClock: testclock.NewFakeClock(start),
		asked:     make(chan struct{}),
		timeout:   make(chan time.Time),
		ticks:     make(chan time.Time),
	}
}

// NewTimer and NewTicker are called by waitForPodsCleanup only, which waits for both at once and
// requests the ticker's channel last.
func (c *passClock) NewTimer(time.Duration) clock.Timer { return timer{c} }

func (c *passClock) NewTicker(time.Duration) clock.Ticker { return ticker{c} }

type timer struct{ clock *passClock }

func (t timer) C() <-chan time.Time    { return t.clock.timeout }
func (timer) Stop() bool               { return true }
func (timer) Reset(time.Duration) bool { return true }

type ticker struct{ clock *passClock }

func (t ticker) C() <-chan time.Time {
	t.clock.asked <- struct{}{}
	return t.clock.ticks
}
func (ticker) Stop() {}

// await runs wait, which polls each second whether something is done, and returns how long it took.
// done is called with the time that has passed.
func (c *passClock) await(done func(passed time.Duration) bool, wait func(done func() bool)) time.Duration {
	ended := make(chan struct{})
	var passed time.Duration
	go func() {
		defer close(ended)
		wait(func() bool { return done(passed) })
	}()
	for {
		select {
		case <-ended:
			return passed
		case <-c.asked:
		}
		passed += time.Second
		if passed < cleanupTimeout {
			c.ticks <- c.Now()
		} else { // whether the kubelet takes a tick or the timeout here makes no difference
			c.timeout <- c.Now()
		}
	}
}
