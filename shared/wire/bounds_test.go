package wire

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// entries is a field of so many times the same content.
func entries(field protowire.Number, content string, n int) string {
	one := protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), content)
	return string(bytes.Repeat(one, n))
}

func TestADescriptionOrAnObservationOutOfBoundsIsNotRead(t *testing.T) {
	describe := func(s string) error { return bounded{new(pluginv1.DescribeResponse), describeBounds}.decode(s) }
	observe := func(s string) error { return bounded{new(pluginv1.ObserveResponse), observeBounds}.decode(s) }
	configure := func(s string) error { return bounded{new(pluginv1.ConfigureResponse), configureBounds}.decode(s) }
	long := strings.Repeat("x", 9000)
	for name, c := range map[string]struct {
		decode func(string) error
		reply  string
		want   string
	}{
		"observations":          {observe, entries(1, "", 65), "observations: more than 64 entries"},
		"components":            {observe, entries(1, entries(7, "", 65), 1), "observations[0].components: more than 64 entries"},
		"signals":               {describe, entries(6, "", 65), "signals: more than 64 entries"},
		"steps":                 {describe, entries(6, "", 1) + entries(6, entries(4, "", 33), 1), "signals[1].reclaimSteps: more than 32 entries"},
		"layouts":               {describe, entries(6, entries(4, entries(2, long, 1), 1), 1), "layouts: 9000 bytes, want at most 64"},
		"a step's setting":      {describe, entries(6, entries(4, entries(3, long, 1), 1), 1), "enabledBy: 9000 bytes, want at most 253"},
		"labels":                {describe, entries(7, "a", 65), "wantLabels: more than 64 entries"},
		"a label's length":      {describe, entries(7, long, 1), "wantLabels: 9000 bytes, want at most 317"},
		"annotations":           {describe, entries(8, "a", 65), "wantAnnotations: more than 64 entries"},
		"a name's length":       {describe, entries(1, long, 1), "name: 9000 bytes, want at most 253"},
		"a version":             {describe, entries(2, long, 1), "version: 9000 bytes"},
		"a definition":          {describe, entries(6, entries(3, long, 1), 1), "definition: 9000 bytes"},
		"capabilities":          {describe, entries(3, long, 1), "capabilities: 9000 bytes"},
		"problems":              {configure, entries(1, "", 65), "problems: more than 64 entries"},
		"a problem's path":      {configure, entries(1, entries(1, "a", 33), 1), "problems[0].path: more than 32 entries"},
		"a step":                {configure, entries(1, entries(1, long, 1), 1), "path: 9000 bytes, want at most 317"},
		"a problem's text":      {configure, entries(1, entries(2, long, 1), 1), "text: 9000 bytes, want at most 1024"},
		"not a message":         {observe, "\xff\xff", "malformed"},
		"the most there may be": {observe, entries(1, entries(7, "", 64), 64), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.decode(c.reply)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestAnObservationOfLegalSizeDoesNotExhaustTheHost(t *testing.T) {
	s := entries(1, "", MaxMessageBytes/2)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := bounded{new(pluginv1.ObserveResponse), observeBounds}.decode(s)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > 1<<20 {
		t.Errorf("%v after %d bytes of memory, want it refused for less than a megabyte", err, got)
	}
}

// FuzzBounds: what is within bounds reads as the generated code reads it.
func FuzzBounds(f *testing.F) {
	f.Add([]byte(entries(1, entries(7, "a", 3), 2)))
	f.Add([]byte(entries(6, entries(4, entries(2, "\x01", 2), 2), 2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []bounded{{new(pluginv1.ObserveResponse), observeBounds}, {new(pluginv1.DescribeResponse), describeBounds}} {
			if m.decode(string(b)) == nil && proto.Unmarshal(b, m.Message) != nil {
				t.Errorf("%T reads what the generated code does not", m.Message)
			}
		}
	})
}

func TestAFloodOfMeasurementsIsNotListenedTo(t *testing.T) {
	remote := connect(t, (&fake{measure: func(ctx context.Context, _ eviction.MeasureRequest, emit func(eviction.Measurement)) error {
		for n := 0; ctx.Err() == nil; n++ {
			emit(eviction.Measurement{UID: "nobody", State: eviction.Measured})
		}
		return ctx.Err()
	}}).plugin())
	began := time.Now()
	err := remote.Measurer.Measure(within(t, 20*time.Second), eviction.MeasureRequest{Pods: podsOf("a")}, func(m eviction.Measurement) {
		t.Errorf("measured %+v", m)
	})
	if !errors.Is(err, eviction.ErrInvalidReply) || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v, want an invalid reply that is named", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("listened for %v", took)
	}
}

// hostile is a plugin that fails with a text of its own size.
type hostile struct {
	pluginv1.UnimplementedPluginServiceServer
	text string
}

func (h hostile) Observe(context.Context, *pluginv1.ObserveRequest) (*pluginv1.ObserveResponse, error) {
	return nil, status.Error(codes.FailedPrecondition, h.text)
}

func TestTheTextOfAnErrorIsClipped(t *testing.T) {
	for name, size := range map[string]int{"pages": 40_000, "megabytes": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			s := grpc.NewServer()
			pluginv1.RegisterPluginServiceServer(s, hostile{text: strings.Repeat("x", size)})
			l := listen(t)
			go func() { _ = s.Serve(l) }()
			t.Cleanup(s.Stop)
			cc, err := grpc.NewClient("unix:"+l.Addr().String(), append(DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cc.Close() }()
			_, err = remoteOn(cc).Observe(within(t, 10*time.Second), eviction.ObserveRequest{})
			if err == nil || len(err.Error()) > maxErrorBytes+100 {
				t.Errorf("an error of %d bytes, want one of at most %d: %.200v", len(err.Error()), maxErrorBytes, err)
			}
		})
	}
}

// One pod's endless error text must not stay in memory for the sake of its uid.
func TestALargeMeasurementKeepsOnlyWhatIsKept(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	chunk := measurementChunk{}.with(&eviction.Measurement{UID: "a", Err: text})
	var m measurements
	if err := m.decode(string(chunk)); err != nil || m.list[0].UID != "a" || len(m.list[0].Err) != maxTextBytes {
		t.Errorf("%v, %d bytes of text, want %d", err, len(m.list[0].Err), maxTextBytes)
	}
}
