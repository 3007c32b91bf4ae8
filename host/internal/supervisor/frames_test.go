package supervisor

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
		"many progress messages":   {frameData, 20, 2 * mostProgress, ""},
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

// A plugin that floods the connection with pings took 72 % of a core from the host
// for as long as it liked.
func TestAPluginThatFloodsItsConnectionIsEnded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"floods-pings", "pings"} { // the other one sends as many as it may
		off := false
		h := startHost(t, install(t, name), func(o *Options) {
			o.Settings = map[string]Settings{name: {AutoMTLS: &off}}
		})
		p, i := h.pinned(name)
		_, _ = observe(t.Context(), i)
		p.Release()
		if name == "pings" {
			if _, err := observe(t.Context(), i); err != nil || h.plugin(name).LastError != "" {
				t.Errorf("a plugin that pings: %v, %+v", err, h.plugin(name))
			}
			continue
		}
		eventually(t, "it is told", func() bool {
			return strings.Contains(h.plugin(name).LastError, "it had sent more than 5000 control frames of HTTP/2 within a second")
		})
		eventually(t, "it is started again", func() bool { return h.plugin(name).Restarts > 0 })
	}
}
