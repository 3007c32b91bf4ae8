package process

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

// The page is a process of its own, which the kernel ends before the daemon, and which asks it: what is seen now, and
// who would go. Ten viewers that look each second are nothing to the daemon.
func TestThePageShowsARunningEvictd(t *testing.T) {
	w := emptyWorld(t)
	for i := range 110 {
		w.pod(fmt.Sprint("pod-", i), 10*mib, fakecri.Container{Name: "main"})
	}
	w.plugins("memory")
	w.config["monitoringInterval"], w.config["stateDir"] = "1s", t.TempDir()
	d := w.startReady()
	with := w.plugins("memory", "rival")
	for _, ends := range []string{"SIGTERM", "its standard input ends"} {
		cmd := exec.CommandContext(t.Context(), daemon.Build(t, "evictd"), "page", "--config", d.ConfigFile, "--until-eof", "--with", with)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		url, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		url = strings.TrimSpace(url)
		for view, want := range map[string]string{"": "memory.available", "evictions": "None.", "rank": "by rival"} {
			if text := fetched(t, url+view); !strings.Contains(text, want) {
				t.Errorf("%q does not show %s: %s", view, want, text)
			}
		}
		score, _ := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid))
		limits, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", cmd.Process.Pid))
		if strings.TrimSpace(string(score)) != "1000" || !strings.Contains(string(limits), "Max data size             268435456") {
			t.Errorf("oom_score_adj %s, limits:\n%s", score, limits)
		}
		if ends == "SIGTERM" {
			t.Logf("ten viewers cost the daemon %.2f %% of a core, a quiet one %.2f %%", viewed(t, d, url, 10), viewed(t, d, url, 0))
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		} else if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("after %s it ended with %v", ends, err)
		}
	}
}

// viewed returns the share of a core in percent that the daemon takes beside so many viewers.
func viewed(t *testing.T, d *daemon.Daemon, url string, viewers int) float64 {
	t.Helper()
	before, began := ticks(t, d.PID()), time.Now()
	var looking sync.WaitGroup
	for range viewers {
		looking.Go(func() {
			for range measured() / time.Second {
				fetched(t, url)
				time.Sleep(time.Second)
			}
		})
	}
	looking.Wait()
	time.Sleep(time.Until(began.Add(measured())))
	return float64(ticks(t, d.PID())-before) / time.Since(began).Seconds()
}

func fetched(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%s: %s, %v", url, answer.Status, err)
	}
	return string(text)
}
