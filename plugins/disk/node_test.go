package disk

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
)

// As in the kubelet the first failure is no event: at the start not all is there yet.
func TestThePeriodicGCTellsWithTheKubeletsEvents(t *testing.T) {
	var log bytes.Buffer
	former := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(former) })
	n := &node{facts: eviction.NodeFacts{NodeName: "n1"}}
	short := &gc.ShortError{UsedPercent: 90, CapacityBytes: 1 << 40, FreedBytes: 5}
	for _, c := range []struct {
		when string
		err  error
		want []string
	}{
		{"well", nil, nil},
		{"once", errors.New("oops"), []string{`msg="image garbage collection failed once" error=oops`}},
		{"twice", errors.New("oops"), []string{"msg=event kind=Node name=n1 type=Warning reason=ImageGCFailed message=oops"}},
		{"well again", nil, nil},
		{"short", errors.Join(errors.New("other"), short), []string{
			`reason=FreeDiskSpaceFailed message="Insufficient free disk space on the node's image filesystem (90% of 1.0 TiB used). Failed to free`, "failed once",
		}},
		{"no capacity", gc.ErrNoCapacity, []string{`reason=InvalidDiskCapacity message="invalid capacity 0 on image filesystem"`, "reason=ImageGCFailed"}},
	} {
		log.Reset()
		n.tell(eviction.Reclaimed{}, c.err)
		lines := strings.Count(log.String(), "\n")
		if lines != len(c.want) {
			t.Errorf("%s: the log is\n%swant %d lines", c.when, &log, len(c.want))
		}
		for _, want := range c.want {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: the log is\n%swant %q in it", c.when, &log, want)
			}
		}
	}
}
