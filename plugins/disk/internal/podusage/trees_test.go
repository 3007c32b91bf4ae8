package podusage

import (
	"testing"
	"time"

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
