package main

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// startEvery is the interval of notifications during the start, for a service manager without a
// watchdog.
const startEvery = 20 * time.Second

// A serviceManager receives the state of the daemon, by sd_notify(3), only from the goroutine that
// decides: if that is stuck nothing is sent.
type serviceManager struct {
	// every is the interval of notifications, a third of the watchdog's timeout.
	every time.Duration
	log   *slog.Logger
	// fed: there is a watchdog.
	fed bool

	ready    bool
	notified time.Time
	fail     sync.Once
}

// newServiceManager returns nil if no service manager wants notifications.
func newServiceManager(log *slog.Logger) *serviceManager {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return nil
	}
	interval, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog of the service manager is not fed", "error", err)
	}
	m := &serviceManager{every: startEvery, log: log, fed: interval > 0}
	if m.fed {
		m.every = interval / 3
	}
	return m
}

// alive is called in each iteration of the loop. It extends the start timeout until a pass has
// concluded something; then it reports that the daemon is ready.
func (m *serviceManager) alive(concluded bool) {
	now := time.Now()
	recently := now.Sub(m.notified) < m.every/2
	switch {
	case concluded && !m.ready:
		m.ready = true
		m.tell(systemd.SdNotifyReady + "\nSTATUS=observing")
	case recently:
		return
	case !concluded:
		m.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d\nSTATUS=no pass has concluded anything yet", (3 * m.every).Microseconds()))
	case m.fed:
		m.tell(systemd.SdNotifyWatchdog)
	}
	m.notified = now
}

func (m *serviceManager) stopping() { m.tell(systemd.SdNotifyStopping + "\nSTATUS=ending") }

// tell sends a message. Only the first failure is logged.
func (m *serviceManager) tell(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		m.fail.Do(func() { m.log.Error("service manager not notified", "error", err) })
	}
}
