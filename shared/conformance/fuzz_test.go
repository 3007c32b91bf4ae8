package conformance

import (
	"testing"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/wire"
)

func FuzzMeasurements(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte(check.Message{}.Bytes(1, check.Message{}.Text(1, "uid").Number(2, 2).Bytes(3, check.Message{}.Text(1, "s").Number(2, 7)))))
	f.Add([]byte(check.Message{}.Bytes(1, check.Message{}.Bytes(8, check.Message{}.Text(1, "main")).Bytes(9, []byte{0xff}))))
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		rows, err := wire.DecodeMeasurements(raw)
		if err != nil && rows != nil {
			t.Errorf("rows %+v with error %v", rows, err)
		}
	})
}
