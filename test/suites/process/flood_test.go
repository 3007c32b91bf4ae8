package process

import (
	"fmt"
	"io"
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

// What requests cost the daemon while local programs ask as fast as they can is printed: a share of a
// core depends on the machine.
func TestWhatAFloodOfRequestsCosts(t *testing.T) {
	w := emptyWorld(t)
	for i := range 110 {
		w.pod(fmt.Sprint("pod-", i), 10*mib, fakecri.Container{Name: "main"})
	}
	w.plugins("memory")
	w.config["monitoringInterval"], w.config["healthzBindAddress"], w.config["metricsBindAddress"] = "1s", "127.0.0.1:0", "127.0.0.1:0"
	d := w.startReady()
	share := func(load func()) float64 {
		before, began := ticks(t, d.PID()), time.Now()
		load()
		return float64(ticks(t, d.PID())-before) / time.Since(began).Seconds() // of a hundred a second
	}
	t.Logf("without requests %.1f %% of a core", share(func() { time.Sleep(measured()) }))
	for _, page := range []string{"metrics", "healthz"} {
		var answered, failed atomic.Int64
		cost := share(func() { flood(d.Address(page), "/"+page, 100, &answered, &failed) })
		t.Logf("%-10s %5.1f %% of a core, %d answers, %d failures", page, cost, answered.Load(), failed.Load())
		if answered.Load() == 0 {
			t.Errorf("%s: no request was answered", page)
		}
	}
	if code, text := d.Get("/healthz"); code != http.StatusOK {
		t.Errorf("after the flood: %d %s", code, text)
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
