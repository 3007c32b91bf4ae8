package conformance

import (
	"testing"

	"github.com/evictd/evictd/shared/wire"
)

func FuzzMeasurements(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte(message{}.bytes(1, message{}.text(1, "uid").number(2, 2).bytes(3, message{}.text(1, "s").number(2, 7)))))
	f.Add([]byte(message{}.bytes(1, message{}.bytes(8, message{}.text(1, "main")).bytes(9, []byte{0xff}))))
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		rows, err := wire.DecodeMeasurements(raw)
		if err != nil && rows != nil {
			t.Errorf("rows %+v with error %v", rows, err)
		}
	})
}
