package process

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/testos"
)

// What requests cost the daemon while local programs ask as fast as they can is printed: a share of a
// core depends on the machine. /ranking of unknown signals cost 60 to 79 % of one.
func TestWhatAFloodOfRequestsCosts(t *testing.T) {
	w := emptyWorld(t)
	for i := range 110 {
		w.pod(fmt.Sprint("pod-", i), 10*mib, fakecri.Container{Name: "main"})
	}
	w.plugins("memory")
	w.config["monitoringInterval"] = "1s"
	d := w.startReady()
	share := func(load func()) float64 {
		before, began := ticks(t, d.PID()), time.Now()
		load()
		return float64(ticks(t, d.PID())-before) / time.Since(began).Seconds() // of a hundred a second
	}
	t.Logf("without requests %.1f %% of a core", share(func() { time.Sleep(3 * time.Second) }))
	for i, page := range []string{"/metrics", "/status", "/ranking?signal=none%d"} {
		var answered, failed atomic.Int64
		keep := i == 0 // connections: the others connect for each request
		cost := share(func() { flood(d.Address(), page, 100, keep, &answered, &failed) })
		t.Logf("%-34s kept connections %-5t %5.1f %% of a core, %d answers, %d failures", page, keep, cost, answered.Load(), failed.Load())
		if answered.Load() == 0 {
			t.Errorf("%s: no request was answered", page)
		}
	}
	if code, text := d.Get("/healthz"); code != http.StatusOK {
		t.Errorf("after the flood: %d %s", code, text)
	}
}

// flood asks for a page with so many clients for four seconds.
func flood(address, page string, clients int, keep bool, answered, failed *atomic.Int64) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: !keep, MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	end := time.Now().Add(4 * time.Second) // of which the first requests do not wait
	var asking sync.WaitGroup
	for c := range clients {
		asking.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				path := page
				if strings.Contains(page, "%d") {
					path = fmt.Sprintf(page, c*1_000_000+i)
				}
				resp, err := client.Get("http://" + address + path)
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
