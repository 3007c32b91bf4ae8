package podusage

import (
	"context"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
)

// A directory that is too large or too slow to be finished counts with its last
// complete figure. Once it was cleaned up that would hold a sizeLimit against its
// pod for ever.
func TestADirectoryThatHasShrunkIsNotRememberedAsLargeForEver(t *testing.T) {
	story(t, func(t *testing.T, n *node, d *disk) {
		row := n.add("u", []eviction.Volume{{Name: "v", Kind: "emptyDir", Medium: "Memory"}}) // no walk waits in it
		d.chunks["v"] = 50
		wantVolume(t, n.within(time.Second, row)["u"], "50Mi 1000000")
		d.mu.Lock()
		d.chunks["v"], d.takes = 20, 30*time.Millisecond
		d.mu.Unlock()
		wantVolume(t, n.within(200*time.Millisecond, row)["u"], "50Mi 1000000")
		time.Sleep(forgetAfter)
		for range 3 {
			wantVolume(t, n.within(200*time.Millisecond, row)["u"], "5Mi 100000")
		}
		d.mu.Lock()
		d.takes = 100 * time.Millisecond
		d.mu.Unlock()
		wantVolume(t, n.within(200*time.Millisecond, row)["u"], "1Mi 20000")
	})
}

// A panic in a walk ended the process that the plugin is in.
func TestAWalkThatPanicsCostsItsOwnAnswer(t *testing.T) {
	story(t, func(t *testing.T, n *node, d *disk) {
		bad, good := n.add("bad", []eviction.Volume{emptyDir("panics")}), n.add("good", []eviction.Volume{emptyDir("v")})
		d.chunks["panics"], d.chunks["v"] = 1, 2
		open, panics := n.meter.trees.open, true
		n.meter.trees.open = func(dir string, o walk.Options) (walker, error) {
			w, err := open(dir, o)
			if path.Base(dir) == "panics" && panics {
				w = panicking{w}
			}
			return w, err
		}
		got := n.within(time.Second, bad, good)
		wantVolume(t, got["good"], "2Mi 40000")
		if err := got["bad"].Err; !strings.Contains(err, "panic: nil directory") {
			t.Errorf("error %q, want the panic", err)
		}
		panics = false
		wantVolume(t, n.within(time.Second, bad)["bad"], "1Mi 20000")
	})
}

type panicking struct{ walker }

func (panicking) Continue(context.Context) (bool, error) { panic("nil directory") }
