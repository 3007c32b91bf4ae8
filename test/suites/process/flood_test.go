package process

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// Local programs that ask as fast as they can, and others that hold connections, keep neither the probe by the socket nor root's
// commands waiting. What that costs the daemon is printed: a share of a core depends on the machine.
func TestRootsCommandsAreAnsweredInAFlood(t *testing.T) {
	w := emptyWorld(t)
	for i := range 110 {
		w.pod(fmt.Sprint("pod-", i), 10*mib, fakecri.Container{Name: "main"})
	}
	w.plugins("memory")
	w.config["monitoringInterval"], w.config["healthzBindAddress"], w.config["metricsBindAddress"] = "1s", "127.0.0.1:0", "127.0.0.1:0"
	d := w.startReady()
	awaitHealth(t, d, http.StatusOK, "ok\n") // the first pass is over
	for _, page := range []string{"metrics", "healthz"} {
		for range 40 {
			idle, err := net.Dial("tcp", d.Address(page))
			if err != nil {
				t.Fatal(err)
			}
			defer idle.Close()
		}
		var answered, failed atomic.Int64
		before, began, over := ticks(t, d.PID()), time.Now(), make(chan struct{})
		go func() {
			defer close(over)
			flood(d.Address(page), "/"+page, 100, &answered, &failed)
		}()
		asked, longest := 0, time.Duration(0)
		for flooded := true; flooded; asked++ {
			asks := time.Now()
			for _, of := range []string{"/healthz", "/status"} {
				if code, text := d.Get(of); code != http.StatusOK {
					t.Fatalf("%s by the socket: %d %s", of, code, text)
				}
			}
			longest = max(longest, time.Since(asks))
			select {
			case <-over:
				flooded = false
			case <-time.After(20 * time.Millisecond):
			}
		}
		t.Logf("%-10s %5.1f %% of a core, %d answers, %d failures; by the socket %d, the longest %v", page,
			float64(ticks(t, d.PID())-before)/time.Since(began).Seconds(), answered.Load(), failed.Load(), asked, longest)
	}
}

// measured returns the length of a measurement that is only printed.
func measured() time.Duration {
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		return 4 * time.Second
	}
	return time.Second
}

// flood asks for a page with so many clients.
func flood(address, page string, clients int, answered, failed *atomic.Int64) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	defer client.CloseIdleConnections()
	end := time.Now().Add(measured()) // of which the first requests do not wait
	var asking sync.WaitGroup
	for range clients {
		asking.Go(func() {
			for time.Now().Before(end) {
				resp, err := client.Get("http://" + address + page)
				if err != nil {
					failed.Add(1)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				answered.Add(1)
			}
		})
	}
	asking.Wait()
}

// ticks are the hundredths of a second of CPU time that a process has used.
func ticks(t *testing.T, pid int) (n int) {
	t.Helper()
	stat := testos.ReadFile(t, fmt.Sprintf("/proc/%d/stat", pid))
	var user, system int
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	if _, err := fmt.Sscan(fields[12]+" "+fields[13], &user, &system); err != nil { // utime and stime, 14 and 15 of all
		t.Fatal(err)
	}
	return user + system
}
