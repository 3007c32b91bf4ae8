package systemd

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
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

func TestReadyIsSentAfterAPassAndTheWatchdogIsFedByTurns(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "60000000")
	t.Setenv("WATCHDOG_PID", "")
	sent := notifications(t)
	m := NewManager(slog.New(slog.DiscardHandler))
	if m == nil || m.Every != 20*time.Second {
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
		m.Alive(is.concluded)
		if got := sent(); !slices.Equal(got, is.want) {
			t.Errorf("a turn %v after the last message, concluded %v: %q, want %q", is.after, is.concluded, got, is.want)
		}
	}
	m.Stopping()
	if got := sent(); len(got) != 1 || !strings.HasPrefix(got[0], "STOPPING=1\n") {
		t.Errorf("at the end %q, want STOPPING=1", got)
	}
}

func TestWithoutAServiceManagerNothingIsSent(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if m := NewManager(slog.New(slog.DiscardHandler)); m != nil {
		t.Errorf("%+v, want none", m)
	}
}

func TestWhatExcusesASilentLoop(t *testing.T) {
	const every, look = 20 * time.Second, 10 * time.Second
	for name, c := range map[string]struct {
		silent time.Duration
		grown  strain
		want   bool
	}{
		"a loop that reports":                       {20 * time.Second, strain{1000, look}, false},
		"stuck without pressure":                    {31 * time.Second, strain{}, false},
		"a single major fault":                      {31 * time.Second, strain{faults: 1}, false},
		"major faults":                              {31 * time.Second, strain{faults: 10}, true},
		"stalls of the node":                        {31 * time.Second, strain{waited: 9 * time.Second}, true},
		"the stalls of a node that copies files":    {31 * time.Second, strain{waited: 900 * time.Millisecond}, false},
		"pressure for as long as it is an excuse":   {mostHeldUp, strain{1000, look}, true},
		"pressure that lasts, so the loop is stuck": {mostHeldUp + time.Second, strain{1000, look}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := excused(c.silent, every, look, c.grown); got != c.want {
				t.Errorf("excused after %v with %+v in %v: %v, want %v", c.silent, c.grown, look, got, c.want)
			}
		})
	}
}

// On a thrashing node the loop waited for its own text from a full disk, and systemd's watchdog
// killed evictd.
func TestWatchdogDoesNotKillAHostThatWaitsForPages(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "60000000")
	t.Setenv("WATCHDOG_PID", "")
	for name, c := range map[string]struct {
		concluded bool
		each      time.Duration // waited in each look
		want      []string
		most      time.Duration // from the last report until the last message
	}{
		"held up":            {true, 2 * time.Second, []string{"WATCHDOG=1"}, mostHeldUp},
		"held up at start":   {false, 2 * time.Second, []string{"EXTEND_TIMEOUT_USEC=60000000\nSTATUS=no pass has concluded anything yet"}, mostHeldUp},
		"stuck for no cause": {true, 0, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sent := notifications(t)
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				m := NewManager(slog.New(slog.NewTextHandler(&log, nil)))
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				counted := strain{}
				go m.watch(ctx, func() strain { counted.waited += c.each; return counted })
				m.Alive(c.concluded)
				sent()
				began, last, all := time.Now(), time.Now(), []string(nil)
				for time.Since(began) < 2*mostHeldUp {
					<-time.After(5 * time.Second)
					synctest.Wait()
					if now := sent(); len(now) > 0 {
						if silent := time.Since(last); silent >= time.Minute {
							t.Errorf("no message for %v, want one within the watchdog's minute", silent)
						}
						all, last = append(all, now...), time.Now()
					}
				}
				if got := slices.Compact(all); !slices.Equal(got, c.want) || last.Sub(began) > c.most+time.Second {
					t.Errorf("messages %q until %v after the last report, want %q and none after %v", got, last.Sub(began), c.want, c.most)
				}
				if n := strings.Count(log.String(), "loop is held up by memory pressure"); n != len(c.want) {
					t.Errorf("logged %d times, want %d, once for each episode:\n%s", n, len(c.want), log.String())
				}
				m.Alive(c.concluded) // the loop goes on, and is held up again
				<-time.After(time.Minute)
				synctest.Wait()
				if n := strings.Count(log.String(), "loop is held up by memory pressure"); n != 2*len(c.want) {
					t.Errorf("logged %d times after two episodes, want %d", n, 2*len(c.want))
				}
			})
		})
	}
}

func TestStrainIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  time.Duration
	}{
		"PSI": {map[string]string{
			"pressure/memory": "some avg10=1.00 avg60=0.00 avg300=0.00 total=2000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
			"vmstat":          "pgscan_direct 99999999\n",
		}, 2 * time.Second},
		"a kernel without PSI": {map[string]string{"vmstat": "nr_free_pages 7\npgscan_kswapd 5\npgscan_direct 10000\npgscan_direct_throttle 9\n"}, time.Second},
		"neither":              {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range c.files {
				path := filepath.Join(root, "proc", file)
				testos.Put(t, path, text, 0o600)
			}
			if got := openStrain(nodefs.FS{Root: root})(); got.waited != c.want {
				t.Errorf("waited %v, want %v", got.waited, c.want)
			}
		})
	}
}
