package crossing

import "testing"

func TestValueOf(t *testing.T) {
	const stat = "cache 1\ninactive_file 2\ntotal_inactive_file 4096\nMemTotal:       24684096 kB\n"
	for key, want := range map[string]int64{"inactive_file": 2, "total_inactive_file": 4096, "MemTotal:": 24684096} {
		if got, err := valueOf([]byte(stat), []byte(key)); err != nil || got != want {
			t.Errorf("valueOf(%q) = %d, %v, want %d", key, got, err, want)
		}
	}
	if _, err := valueOf([]byte(stat), []byte("file")); err == nil {
		t.Error("a key inside another one was accepted")
	}
}
