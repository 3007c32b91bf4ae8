package main

import (
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// notifications is a service manager's socket; what was sent to it is read at any time.
func notifications(t *testing.T) (sent func() []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return func() (all []string) {
		t.Helper()
		if err := raw.Control(func(fd uintptr) {
			for buf := make([]byte, 4096); ; {
				n, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
				if err != nil { // no more has come
					return
				}
				all = append(all, string(buf[:n]))
			}
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
}

func TestReadyIsToldWhenAPassHasConcludedAndTheWatchdogIsFedByTurns(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "60000000")
	t.Setenv("WATCHDOG_PID", "")
	sent := notifications(t)
	m := newServiceManager(slog.New(slog.DiscardHandler))
	if m == nil || m.every != 20*time.Second {
		t.Fatalf("service manager %+v, want one that is told each 20s", m)
	}
	for _, is := range []struct {
		after     time.Duration
		concluded bool
		want      []string
	}{
		{0, false, []string{"EXTEND_TIMEOUT_USEC=60000000\nSTATUS=no pass has concluded anything yet"}},
		{time.Second, false, nil},
		{20 * time.Second, false, []string{"EXTEND_TIMEOUT_USEC=60000000\nSTATUS=no pass has concluded anything yet"}},
		{time.Millisecond, true, []string{"READY=1\nSTATUS=observing"}},
		{time.Second, true, nil},
		{20 * time.Second, true, []string{"WATCHDOG=1"}},
		{20 * time.Second, true, []string{"WATCHDOG=1"}},
	} {
		m.notified = m.notified.Add(-is.after) // as if so long ago
		m.alive(is.concluded)
		if got := sent(); !slices.Equal(got, is.want) {
			t.Errorf("a turn %v after the last message, concluded %v: %q, want %q", is.after, is.concluded, got, is.want)
		}
	}
	m.stopping()
	if got := sent(); len(got) != 1 || !strings.HasPrefix(got[0], "STOPPING=1\n") {
		t.Errorf("at the end %q, want STOPPING=1", got)
	}
}

func TestWithoutAServiceManagerNobodyIsTold(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if m := newServiceManager(slog.New(slog.DiscardHandler)); m != nil {
		t.Errorf("%+v, want none", m)
	}
}
