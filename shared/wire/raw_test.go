package wire

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
)

// What is tried is what runs: rows by hand are read as those of a request.
func TestRowsByHand(t *testing.T) {
	nest := func(b []byte, num protowire.Number, inner []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), inner)
	}
	pod := eviction.Pod{UID: "u", Name: "n", Labels: map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"c": "3"}}
	measured := eviction.Measurement{UID: "u", State: eviction.NoStats, Processes: eviction.Some(0)}
	row := nest(nest(nil, 1, EncodePod(&pod, []string{"a"}, []string{"c"})), 2, EncodeMeasurement(&measured))
	var request rankRequest
	if err := request.decode(string(nest(nil, 9, row))); err != nil || len(request.Candidates) != 1 {
		t.Fatalf("%+v, %v", request, err)
	}
	want := eviction.Candidate{Pod: pod, Measurement: measured}
	want.Pod.Labels = map[string]string{"a": "1"} // which are wanted
	if diff := cmp.Diff(want, request.Candidates[0], cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

// A host refuses a message with more pods than it may have; who looks for that has to
// see them.
func TestAnswersOfAnySizeAreRead(t *testing.T) {
	var all measurementChunk
	for i := range chunk + 1 {
		all = all.with(&eviction.Measurement{UID: fmt.Sprint(i), State: eviction.Measured})
	}
	if err := new(measurements).decode(string(all)); err == nil {
		t.Error("a host reads it")
	}
	if list, err := DecodeMeasurements(all); err != nil || len(list) != chunk+1 || list[chunk].UID != fmt.Sprint(chunk) {
		t.Errorf("%d measurements, %v, want %d", len(list), err, chunk+1)
	}
	if list, err := DecodeMeasurements([]byte{0x0a, 0xff}); err == nil || list != nil {
		t.Errorf("%v, %v, want an error for what is cut off", list, err)
	}
}
