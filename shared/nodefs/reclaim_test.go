package nodefs

import (
	"errors"
	"testing"
	"time"
)

func TestCountersOfReclaim(t *testing.T) {
	for text, want := range map[string]Reclaim{
		"nr_free_pages 5\nworkingset_refault_anon 1\nworkingset_refault_file 17\npgscan_direct 4\npgscan_direct_throttle 9\n": {17, 4},
		"workingset_refault 8\npgscan_kswapd 3\n": {8, 0}, // Linux 5.8
		"pgscan_direct 3\n":                       {0, 3},
	} {
		if got, err := parseVMStat([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	if _, err := parseVMStat([]byte("nr_free_pages 5\n")); !errors.Is(err, ErrNoCounters) {
		t.Errorf("%v, want that there are none", err)
	}
	if got, err := parseVMStat([]byte("workingset_refault_file x\n")); err == nil || errors.Is(err, ErrNoCounters) {
		t.Errorf("%+v, %v, want an error", got, err)
	}
}

func TestFullStall(t *testing.T) {
	const some = "some avg10=0.00 avg60=0.00 avg300=0.00 total=99\n"
	if got, ok := parseFullStall([]byte(some + "full avg10=0.00 avg60=0.00 avg300=0.00 total=1500\n")); !ok || got != 1500*time.Microsecond {
		t.Errorf("%v, %v", got, ok)
	}
	for _, text := range []string{"", some, some + "full avg10=0.00\n", some + "full total=-1\n", some + "full total=9223372036854775807\n"} {
		if got, ok := parseFullStall([]byte(text)); ok {
			t.Errorf("%q: %v, want none", text, got)
		}
	}
}

func FuzzVMStat(f *testing.F) {
	f.Add([]byte("workingset_refault_file 17\npgscan_direct 4\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := parseVMStat(text); r.Refaults < 0 || r.DirectScans < 0 || err != nil && r != (Reclaim{}) {
			t.Errorf("%+v, %v", r, err)
		}
		if d, ok := parseFullStall(text); d < 0 && ok {
			t.Errorf("%v", d)
		}
	})
}
