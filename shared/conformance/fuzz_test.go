package conformance

import "testing"

// What a plugin prints first must not break the one who checks it.
func FuzzHandshake(f *testing.F) {
	for _, line := range []string{
		"1|1|unix|/tmp/x/s|grpc|", "1|1|unix|/tmp/x/s|grpc|QUFB", "1|9|tcp|:1|netrpc", "hello", "||||||", "1|1|unix|\x00|grpc|\xff",
	} {
		f.Add(line, true)
		f.Add(line, false)
	}
	f.Fuzz(func(t *testing.T, line string, tls bool) {
		h := readHandshake(line, "/nonexistent/directory", tls)
		if !h.broken() {
			t.Errorf("%q is accepted, with a socket that cannot be there", line)
		}
	})
}

func FuzzMeasurements(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte(message{}.bytes(1, message{}.text(1, "uid").number(2, 2).bytes(3, message{}.text(1, "s").number(2, 7)))))
	f.Add([]byte(message{}.bytes(1, message{}.bytes(8, message{}.text(1, "main")).bytes(9, []byte{0xff}))))
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		rows, _, err := parseMeasurements(raw)
		if err != nil && rows != nil {
			t.Errorf("rows %+v with error %v", rows, err)
		}
	})
}
