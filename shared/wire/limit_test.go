package wire

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
)

// empties is a MeasureResponse of one pod with n empty entries in a list, each of
// which has two bytes.
func empties(list protowire.Number, n int) string {
	entry := protowire.AppendBytes(protowire.AppendTag(nil, list, protowire.BytesType), nil)
	return string(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), bytes.Repeat(entry, n)))
}

var shortLists = map[string]struct {
	number protowire.Number
	most   int
	len    func(eviction.Measurement) int
}{
	"usages":     {3, maxUsages, func(m eviction.Measurement) int { return len(m.Usage) }},
	"containers": {8, maxContainers, func(m eviction.Measurement) int { return len(m.Containers) }},
	"volumes":    {9, maxVolumes, func(m eviction.Measurement) int { return len(m.Volumes) }},
}

// A plugin must not turn one message of legal size into hundreds of megabytes of
// the host.
func TestAMessageOfEmptyEntriesDoesNotExhaustTheHost(t *testing.T) {
	const mostBytes = 1 << 20
	for name, list := range shortLists {
		s := empties(list.number, 4<<20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := (&measurements{}).decode(s)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v, want one that names them", name, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > mostBytes {
			t.Errorf("%s: %d bytes of memory for a message that is refused, want at most %d", name, got, mostBytes)
		}
	}
}

func TestAPodAtTheLimitsIsRead(t *testing.T) {
	for name, list := range shortLists {
		var m measurements
		if err := m.decode(empties(list.number, list.most)); err != nil || len(m.list) != 1 || list.len(m.list[0]) != list.most {
			t.Errorf("%s: %d measurements, %v, want one with %d", name, len(m.list), err, list.most)
		}
		if err := m.decode(empties(list.number, list.most+1)); err == nil {
			t.Errorf("%d %s are read, want at most %d", list.most+1, name, list.most)
		}
	}
}
