package disk_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// reported collects the log of the plugin.
type reported struct {
	mu   sync.Mutex
	text bytes.Buffer
	line chan struct{}
}

// hear takes over the plugin's log.
func hear(t *testing.T) *reported {
	t.Helper()
	l := &reported{line: make(chan struct{}, 100)}
	former := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(l, nil)))
	t.Cleanup(func() { slog.SetDefault(former) })
	return l
}

// Write implements io.Writer.
func (l *reported) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.line <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

// await returns the log when a text is in it.
func (l *reported) await(t *testing.T, text string) string {
	t.Helper()
	for deadline := time.After(10 * time.Second); ; {
		l.mu.Lock()
		all := l.text.String()
		l.mu.Unlock()
		if strings.Contains(all, text) {
			return all
		}
		select {
		case <-l.line:
		case <-deadline:
			t.Fatalf("the log is\n%swant %q in it", all, text)
		}
	}
}

// Each disk is fuller than that.
const everythingGoes = `{"periodicImageGC":true,"imageMinimumGCAge":"0s","imageGCHighThresholdPercent":1,"imageGCLowThresholdPercent":0}`

// A dry run that the plugin did not know of cost the node its images.
func TestADryRunKeepsUnusedImages(t *testing.T) {
	for name, c := range map[string]struct {
		dryRun bool
		left   int
		happen func(*reported, *machine) error
	}{
		"dry run": {true, 2, func(log *reported, _ *machine) error {
			log.await(t, "dry run: 2 images")
			return nil
		}},
		"for real": {false, 0, func(_ *reported, m *machine) error {
			err := m.runtime.Await(t.Context(), fakecri.RemoveImage, 2)
			for deadline := time.Now().Add(10 * time.Second); len(m.runtime.ImageIDs()) > 0 && time.Now().Before(deadline); {
				runtime.Gosched() // the last is being answered
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			log, m := hear(t), newMachine(t)
			m.runtime.SetSandboxImage("example.org/pause:1")
			for _, id := range []string{"a", "b"} {
				m.runtime.AddImage(&runtimeapi.Image{Id: id, Size: 1000})
			}
			p := disk.New()
			m.facts.DryRun = c.dryRun
			m.configure(t, p, everythingGoes)
			if _, err := observe(t, p); err != nil {
				t.Fatal(err)
			}
			if err := c.happen(log, m); err != nil {
				t.Fatal(err)
			}
			if got := len(m.runtime.ImageIDs()); got != c.left {
				t.Errorf("%d images are left, want %d", got, c.left)
			}
		})
	}
}
