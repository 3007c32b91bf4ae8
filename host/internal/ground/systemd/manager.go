package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/evictd/evictd/shared/nodefs"
)

// startEvery is the interval of notifications during the start, if there is no watchdog.
const startEvery = 20 * time.Second

// mostHeldUp bounds the silence of the loop that a shortage of memory excuses.
const mostHeldUp = 5 * time.Minute

// A Manager receives the state of the daemon, by sd_notify(3), from the goroutine that
// decides. If that is stuck nothing is sent, unless a shortage of memory holds it up: another evictd
// would have to read its program from the same disk first, and its plugins.
type Manager struct {
	// Every is the interval of notifications, a third of the watchdog's timeout.
	Every time.Duration
	log   *slog.Logger
	// fed: there is a watchdog.
	fed bool

	notified time.Time
	fail     sync.Once

	began time.Time
	// reported is when the loop was last alive, in nanoseconds since began.
	reported atomic.Int64
	ready    atomic.Bool
}

// NewManager returns nil if no service manager wants notifications.
func NewManager(log *slog.Logger) *Manager {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog of the service manager is not fed", "error", err)
	}
	m := &Manager{Every: startEvery, log: log, fed: interval > 0, began: time.Now()}
	if m.fed {
		m.Every = interval / 3
	}
	return m
}

// Alive is called in each iteration of the loop. It extends the start timeout until a pass has
// concluded something; then it reports that the daemon is ready.
func (m *Manager) Alive(concluded bool) {
	now := time.Now()
	m.reported.Store(int64(now.Sub(m.began)))
	recently := now.Sub(m.notified) < m.Every/2
	switch {
	case concluded && !m.ready.Load():
		m.ready.Store(true)
		m.tell(daemon.SdNotifyReady + "\nSTATUS=observing")
	case recently:
		return
	default:
		m.extend()
	}
	m.notified = now
}

// extend extends the current timeout: that of the start, or the watchdog's.
func (m *Manager) extend() {
	switch {
	case !m.ready.Load():
		m.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=no pass has concluded anything yet", (3 * m.Every).Microseconds()))
	case m.fed:
		m.tell(daemon.SdNotifyWatchdog)
	}
}

// Watch extends the timeouts in place of a loop that a shortage of memory holds up, until ctx ends.
func (m *Manager) Watch(ctx context.Context) { m.watch(ctx, openStrain(nodefs.FS{})) }

func (m *Manager) watch(ctx context.Context, read func() strain) {
	tick := time.NewTicker(m.Every / 2)
	defer tick.Stop()
	logged := false
	for at, former := time.Now(), read(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, counted := time.Now(), read()
		passed, grown := now.Sub(at), strain{counted.faults - former.faults, counted.waited - former.waited}
		at, former = now, counted
		silent := now.Sub(m.began) - time.Duration(m.reported.Load())
		if !excused(silent, m.Every, passed, grown) {
			logged = logged && silent > m.Every
			continue
		}
		m.extend()
		if !logged {
			logged = true
			m.log.Warn("loop is held up by memory pressure", "silent", silent.String(), "majorFaults", grown.faults, "waited", grown.waited.String(), "within", passed.String())
		}
	}
}

// excused reports whether memory explains the silence of a loop that is to report once per every,
// by what has grown in the time passed: a major fault each second, or a tenth of the time waited.
func excused(silent, every, passed time.Duration, grown strain) bool {
	return silent > every*3/2 && silent <= mostHeldUp &&
		(time.Duration(grown.faults)*time.Second >= passed || grown.waited >= passed/10)
}

// Stopping reports that the daemon ends.
func (m *Manager) Stopping() { m.tell(daemon.SdNotifyStopping + "\nSTATUS=ending") }

// tell sends a message. Only the first failure is logged.
func (m *Manager) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.fail.Do(func() { m.log.Error("service manager not notified", "error", err) })
	}
}
