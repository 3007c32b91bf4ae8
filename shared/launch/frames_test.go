package launch

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"
)

func frame(kind byte, payload int) []byte {
	f := make([]byte, frameHeader+payload)
	binary.BigEndian.PutUint32(f, uint32(payload)<<8|uint32(kind))
	return f
}

func TestTooManyFrames(t *testing.T) {
	const ping, settings, window = 6, 4, 8
	for name, c := range map[string]struct {
		kind    byte
		payload int
		n       int
		says    string
	}{
		"pings":                    {ping, 8, mostControlFrames + 1, "more than 5000 control frames"},
		"as many as there may be":  {ping, 8, mostControlFrames, ""},
		"settings":                 {settings, 0, mostControlFrames + 1, "more than 5000 control frames"},
		"windows":                  {window, 4, mostControlFrames + 1, "more than 5000 control frames"},
		"a kind nobody knows":      {200, 3, mostControlFrames + 1, "more than 5000 control frames"},
		"data without any":         {frameData, 0, mostControlFrames + 1, "more than 5000 control frames"},
		"a byte at a time":         {frameData, 1, mostFrames + 1, "more than 50000 frames"},
		"many progress messages":   {frameData, 20, 20_000, ""},
		"the largest answers":      {frameData, 16 << 10, 4 * 512, ""},
		"answers without anything": {frameHeaders, 10, mostControlFrames + 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			stream := []byte(strings.Repeat(string(frame(c.kind, c.payload)), c.n))
			for _, at := range []int{1000, 1, 9} { // however it is cut into reads
				now := time.Now()
				f := frameCounter{}
				var err error
				for b := stream; len(b) > 0 && err == nil; {
					n := min(at, len(b))
					err = f.read(b[:n], now)
					b = b[n:]
				}
				if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
			}
			f := frameCounter{}
			begin := time.Now()
			for second := range 3 { // the same in three seconds is not too much
				at := begin.Add(time.Duration(second) * time.Second)
				third := len(stream) / 3
				if err := f.read(stream[second*third:(second+1)*third], at); err != nil {
					t.Errorf("in three seconds: %v", err)
				}
			}
		})
	}
}
