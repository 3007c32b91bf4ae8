package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/shared/eviction"
)

const smartLog = "run/acme/nvme0.json"

// A node is a directory that looks like one.
type node struct {
	root   string
	plugin sdk.Plugin
}

func newNode(t *testing.T, config string) node {
	t.Helper()
	n := node{t.TempDir(), plugin()}
	if err := n.configure(t, config); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n node) facts() eviction.NodeFacts {
	return eviction.NodeFacts{RootDir: n.root, CgroupRoot: "/", CgroupDriver: "cgroupfs"}
}

func (n node) configure(t *testing.T, config string) error {
	t.Helper()
	return n.plugin.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: n.facts(), Config: []byte(config)})
}

func (n node) write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(n.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func (n node) observe(t *testing.T) eviction.Observation {
	t.Helper()
	reply, err := n.plugin.Observer.Observe(t.Context(), eviction.ObserveRequest{Signals: []eviction.Signal{signal}})
	if err != nil || len(reply.Observations) != 1 {
		t.Fatalf("reply %+v, %v; want one observation", reply, err)
	}
	return reply.Observations[0]
}

func TestTheFigureIsTheDrives(t *testing.T) {
	n := newNode(t, "")
	log := n.write(t, smartLog, `{"critical_warning":0, "avail_spare":93, "spare_thresh":10, "percent_used":4}`)
	got := n.observe(t)
	if got.State != eviction.Observed || got.Available != 93 || got.Capacity != 100 {
		t.Errorf("observed %+v, want 93 of 100", got)
	}
	if info, err := os.Stat(log); err != nil || !got.Time.Equal(info.ModTime()) {
		t.Errorf("observed at %v, want when the file was written, so that one figure is not acted on twice", got.Time)
	}
}

// A wrong zero would empty the node.
func TestWithoutAFigureTheSignalIsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, log string) error
		want  string
	}{
		"the agent never ran":  {func(_ *testing.T, log string) error { return os.Remove(log) }, "no such file"},
		"the agent has died":   {func(_ *testing.T, log string) error { return touch(log, -3*time.Minute) }, "old, more than 2m0s"},
		"the clock was set":    {func(_ *testing.T, log string) error { return touch(log, 3*time.Minute) }, "more than 2m0s"},
		"half a file":          {func(_ *testing.T, log string) error { return os.Truncate(log, 10) }, "parse"},
		"an endless file":      {func(_ *testing.T, log string) error { return os.Truncate(log, 1<<40) }, "larger than"},
		"a FIFO in its place":  {func(_ *testing.T, log string) error { return errors.Join(os.Remove(log), unix.Mkfifo(log, 0o644)) }, "no regular file"},
		"a directory in place": {func(_ *testing.T, log string) error { return errors.Join(os.Remove(log), os.Mkdir(log, 0o755)) }, "no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "")
			if err := c.spoil(t, n.write(t, smartLog, `{"avail_spare":93}`)); err != nil {
				t.Fatal(err)
			}
			if got := n.observe(t); got.State != eviction.Unknown || !strings.Contains(got.Err, c.want) {
				t.Errorf("observed %+v, want unknown with %q", got, c.want)
			}
		})
	}
}

func touch(file string, ago time.Duration) error {
	at := time.Now().Add(ago)
	return os.Chtimes(file, at, at)
}

func TestAFigureIsTakenLiterally(t *testing.T) {
	for log, want := range map[string]string{
		`{"avail_spare":0}`:                     "0",
		`{"avail_spare":100}`:                   "100",
		" {\n \"avail_spare\" : 7 }\n":          "7",
		`{"avail_spare":101}`:                   "from 0 to 100",
		`{"avail_spare":-1}`:                    "from 0 to 100",
		`{"avail_spare":9.5}`:                   "from 0 to 100",
		`{"avail_spare":"93"}`:                  "from 0 to 100",
		`{"avail_spare":null}`:                  "from 0 to 100",
		`{"avail_spare":99999999999999999999}`:  "from 0 to 100",
		`{"AVAIL_SPARE":93}`:                    "no avail_spare",
		`{"nested":{"avail_spare":93}}`:         "no avail_spare",
		`{}`:                                    "no avail_spare",
		`null`:                                  "no avail_spare",
		`{"avail_spare":93} {"avail_spare":94}`: "after top-level value",
		`93`:                                    "cannot unmarshal",
		``:                                      "unexpected end",
	} {
		percent, err := parseSmartLog([]byte(log))
		got := fmt.Sprint(percent)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%s: %s, want %s", log, got, want)
		}
	}
}

func TestMistakesInTheConfigurationAreNamedAllAtOnce(t *testing.T) {
	n := newNode(t, "")
	err := n.configure(t, `{"maxAge":"-5s","device":"/dev/nvme0n1"}`)
	for _, want := range []string{`maxAge: "-5s"`, `device: "/dev/nvme0n1", want MAJOR:MINOR`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if err := n.configure(t, `{"smartlog":"/x"}`); err == nil || !strings.Contains(err.Error(), `unknown field "smartlog"`) {
		t.Errorf("error %v, want the field named", err)
	}
}

func TestItKeepsTheContract(t *testing.T) {
	n := newNode(t, "")
	n.runAgent(t)
	sdktest.Run(t, plugin(), sdktest.Node(n.facts()))
}

// runAgent has the file written anew all the time, until the test ends: that
// figures are fresh can only be seen if there are new ones.
func (n node) runAgent(t *testing.T) {
	t.Helper()
	n.write(t, smartLog, `{"avail_spare":93}`)
	ctx, stop := context.WithCancel(t.Context())
	var agent sync.WaitGroup
	agent.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			next := n.write(t, smartLog+".tmp", `{"avail_spare":93}`)
			if err := os.Rename(next, filepath.Join(n.root, smartLog)); err != nil {
				t.Error(err)
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	t.Cleanup(func() { stop(); agent.Wait() })
}

func FuzzSmartLog(f *testing.F) {
	f.Add([]byte(`{"avail_spare":93,"spare_thresh":10}`))
	f.Add([]byte(`{"avail_spare":1e2}`))
	f.Add([]byte(`{"avail_spare":-0}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if percent, err := parseSmartLog(content); percent < 0 || percent > 100 || err != nil && percent != 0 {
			t.Errorf("parseSmartLog(%q) = %d, %v", content, percent, err)
		}
	})
}
