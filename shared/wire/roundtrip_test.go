package wire

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// there and back: random values, really marshalled, must come out as they were.
func roundTrip[D any, W any, PW interface {
	*W
	proto.Message
}](t *testing.T, name string, encode func(D) PW, decode func(PW) D, adjust ...func(*D)) {
	t.Run(name, func(t *testing.T) {
		for seed := range uint64(300) {
			want := random[D](rand.New(rand.NewPCG(1, seed)))
			for _, a := range adjust {
				a(&want)
			}
			bytes, err := proto.Marshal(encode(want))
			if err != nil {
				t.Fatalf("marshal: %v", err)
			}
			w := PW(new(W))
			if err := proto.Unmarshal(bytes, w); err != nil {
				t.Fatalf("unmarshal: %v", err)
			}
			if diff := cmp.Diff(want, decode(w), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d came back different (-sent +received):\n%s", seed, diff)
			}
		}
	})
}

func TestEveryFieldSurvivesTheWire(t *testing.T) {
	roundTrip(t, "Host", encodeHost, decodeHost)
	roundTrip(t, "ConfigureRequest", encodeConfigureRequest, decodeConfigureRequest)
	roundTrip(t, "ObserveRequest", encodeObserveRequest, decodeObserveRequest)
	roundTrip(t, "ObserveReply", encodeObserveReply, decodeObserveReply)
	roundTrip(t, "WatchRequest", encodeWatchRequest, decodeWatchRequest)
	roundTrip(t, "Wake", encodeWake, decodeWake)
	roundTrip(t, "ReclaimRequest", encodeReclaimRequest, decodeReclaimRequest)
	roundTrip(t, "Reclaimed", encodeReclaimed, decodeReclaimed)
	roundTrip(t, "Metric", func(m eviction.Metric) *pluginv1.Metric {
		var w pluginv1.Metric
		encodeMetric(&w, &m)
		return &w
	}, func(w *pluginv1.Metric) (m eviction.Metric) {
		decodeMetric(&m, w)
		return m
	})
	roundTrip(t, "Plugin", func(p eviction.Plugin) *pluginv1.DescribeResponse { return encodePlugin(&p) }, decodePlugin)
}

// byHand checks such a message against generated code: its bytes are the
// reference message, and the reference's bytes read as what was sent.
func byHand[D any](t *testing.T, name string, message func(*D) outgoing, reference func(D) proto.Message, read func(string) (D, error), adjust ...func(*D)) {
	t.Run(name, func(t *testing.T) {
		for seed := range uint64(300) {
			want := random[D](rand.New(rand.NewPCG(4, seed)))
			for _, a := range adjust {
				a(&want)
			}
			written := message(&want).encode(nil)

			ref := reference(want)
			generated := ref.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(written, generated); err != nil {
				t.Fatalf("generated code cannot read it: %v", err)
			}
			if !proto.Equal(ref, generated) { // cmp makes maps of both first
				t.Fatalf("seed %d is written differently (-generated +by hand):\n%s", seed, cmp.Diff(ref, generated, protocmp.Transform()))
			}

			bytes, err := proto.Marshal(ref)
			if err != nil {
				t.Fatalf("marshal: %v", err)
			}
			got, err := read(string(bytes))
			if err != nil {
				t.Fatalf("read: %v", err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("seed %d is read differently (-sent +received):\n%s", seed, diff)
			}
		}
	})
}

func TestRowsWrittenByHandAreTheProtocol(t *testing.T) {
	byHand(t, "MeasureRequest", func(r *eviction.MeasureRequest) outgoing {
		m := &measureRequest{MeasureRequest: *r}
		for i := range r.Pods {
			m.pods = m.pods.wanting(&r.Pods[i])
		}
		return m
	}, func(r eviction.MeasureRequest) proto.Message { return referenceMeasureRequest(r) },
		func(s string) (eviction.MeasureRequest, error) {
			var m measureRequest
			err := m.decode(s)
			return m.MeasureRequest, err
		})
	byHand(t, "MeasureResponse", func(list *[]eviction.Measurement) outgoing {
		var c measurementChunk
		for i := range *list {
			c = c.with(&(*list)[i])
		}
		return (*Raw)(&c)
	}, func(list []eviction.Measurement) proto.Message { return referenceMeasurements(list) },
		func(s string) ([]eviction.Measurement, error) {
			var m measurements
			err := m.decode(s)
			return m.list, err
		})
	byHand(t, "RankRequest", func(r *eviction.RankRequest) outgoing {
		m := &rankRequest{RankRequest: *r}
		for i := range r.Candidates {
			m.pods = m.pods.wanting(&r.Candidates[i].Pod)
		}
		return m
	}, func(r eviction.RankRequest) proto.Message { return referenceRankRequest(r) },
		func(s string) (eviction.RankRequest, error) {
			var m rankRequest
			err := m.decode(s)
			return m.RankRequest, err
		},
		func(r *eviction.RankRequest) {
			for i := range r.Candidates { // a candidate's measurement is always its own
				r.Candidates[i].Measurement.UID = r.Candidates[i].Pod.UID
			}
		})
	byHand(t, "RankResponse", func(list *[]eviction.Ranked) outgoing { return &rankResponse{ranking: *list} },
		func(list []eviction.Ranked) proto.Message { return referenceRanking(list) },
		func(s string) ([]eviction.Ranked, error) {
			m := rankResponse{atMost: 10}
			err := m.decode(s)
			return m.ranking, err
		})
}

// Long content moves to make room for its length.
func TestLengthsOfNestedMessages(t *testing.T) {
	for _, n := range []int{0, 1, 127, 128, 16383, 16384, 2097151, 2097152} {
		b, at := beginMessage([]byte("before"), 7)
		b = append(b, strings.Repeat("x", n)...)
		b = endMessage(b, at)
		want := protowire.AppendBytes(protowire.AppendTag([]byte("before"), 7, protowire.BytesType), []byte(strings.Repeat("x", n)))
		if string(b) != string(want) {
			t.Errorf("a message of %d bytes is not as protowire writes it", n)
		}
	}
}

// The generator is only as good as what it fills.
func TestRandomValuesSetEveryField(t *testing.T) {
	var check func(path string, types []reflect.Value)
	check = func(path string, values []reflect.Value) {
		set := 0
		var inner []reflect.Value
		for _, v := range values {
			if !v.IsZero() {
				set++
			}
			switch v.Kind() {
			case reflect.Slice:
				for i := range v.Len() {
					inner = append(inner, v.Index(i))
				}
			case reflect.Pointer:
				if !v.IsNil() {
					inner = append(inner, v.Elem())
				}
			default:
			}
		}
		if set == 0 {
			t.Errorf("%s is never set", path)
			return
		}
		if len(inner) > 0 {
			check(path+"[]", inner)
		}
		if typ := values[0].Type(); typ.Kind() == reflect.Struct && typ != reflect.TypeFor[time.Time]() {
			for i := range typ.NumField() {
				var fields []reflect.Value
				for _, v := range values {
					fields = append(fields, v.Field(i))
				}
				check(path+"."+typ.Field(i).Name, fields)
			}
		}
	}
	for _, generate := range []func(*rand.Rand) any{
		func(r *rand.Rand) any { return random[eviction.RankRequest](r) },
		func(r *rand.Rand) any { return random[eviction.ObserveReply](r) },
		func(r *rand.Rand) any { return random[eviction.MeasureRequest](r) },
		func(r *rand.Rand) any { return random[eviction.WatchRequest](r) },
		func(r *rand.Rand) any { return random[eviction.ReclaimRequest](r) },
		func(r *rand.Rand) any { return random[eviction.ConfigureRequest](r) },
	} {
		var values []reflect.Value
		for seed := range uint64(100) {
			values = append(values, reflect.ValueOf(generate(rand.New(rand.NewPCG(2, seed)))))
		}
		check(values[0].Type().Name(), values)
	}
}

func TestOnlyWantedLabelsAndAnnotationsAreSent(t *testing.T) {
	got := make(chan eviction.Pod, 1)
	p := (&fake{rank: func(_ context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
		got <- r.Candidates[0].Pod
		return nil, nil
	}}).plugin()
	p.WantLabels, p.WantAnnotations = []string{"tier", "missing"}, []string{"note"}
	_, err := connect(t, p).Ranker.Rank(within(t, 5*time.Second), eviction.RankRequest{Candidates: []eviction.Candidate{{Pod: eviction.Pod{
		UID:         "1",
		Labels:      map[string]string{"tier": "back", "app": "secret"},
		Annotations: map[string]string{"note": "bad \xff byte", "token": "secret"},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := eviction.Pod{
		UID:         "1",
		Labels:      map[string]string{"tier": "back"},
		Annotations: map[string]string{"note": "bad \uFFFD byte"},
	}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Errorf("the plugin sees a different pod (-want +got):\n%s", diff)
	}
}

// What a newer peer says falls back to the protocol's stated defaults.
func TestUnknownEnumValues(t *testing.T) {
	const newer = 99
	if got := decodeObserveRequest(&pluginv1.ObserveRequest{View: newer}).View; got != eviction.ViewBefore {
		t.Errorf("view = %d, want before", got)
	}
	var q measureRequest
	if err := q.decode("\x18\x63"); err != nil || q.Detail != eviction.DetailPod || q.View != eviction.ViewBefore {
		t.Errorf("detail %d, view %d, error %v, want pod and before", q.Detail, q.View, err)
	}
	if got := decodeReclaimRequest(&pluginv1.ReclaimRequest{Pods: []*pluginv1.PodPhase{{State: newer}}}).Pods[0].State; got != eviction.PodActive {
		t.Errorf("pod state = %d, want active, of which nothing may be removed", got)
	}
	var o eviction.Observation
	if decodeObservation(&o, &pluginv1.Observation{State: newer}); o.State != eviction.Unknown {
		t.Errorf("observation state = %d, want unknown", o.State)
	}
	var m measurements
	if err := m.decode("\x0a\x02\x10\x63"); err != nil || m.list[0].State != eviction.MeasurementUnknown {
		t.Errorf("measurement state = %d, error %v, want unknown", m.list[0].State, err)
	}

	if got := scopes.decode(newer, eviction.AllPods); got != eviction.AllPods {
		t.Errorf("candidates = %d, want all pods", got)
	}
	signals := decodePlugin(&pluginv1.DescribeResponse{Signals: []*pluginv1.SignalSpec{
		{Signal: "all"},
		{Signal: "some", Capabilities: []pluginv1.Capability{newer, pluginv1.Capability_CAPABILITY_RANK}},
		{Signal: "none that we know", Capabilities: []pluginv1.Capability{newer}},
		{Signal: "steps", ReclaimSteps: []*pluginv1.ReclaimStep{
			{Name: "everywhere"},
			{Name: "shared", Layouts: []pluginv1.Layout{newer, pluginv1.Layout_LAYOUT_SHARED}},
			{Name: "nowhere that we know", Layouts: []pluginv1.Layout{newer}},
			{Name: "optional", EnabledBy: "trim"},
		}},
	}}).Signals
	want := []eviction.SignalSpec{
		{Signal: "all"},
		{Signal: "some", Capabilities: eviction.CanRank},
		{Signal: "steps", ReclaimSteps: []eviction.ReclaimStep{
			{Name: "everywhere"},
			{Name: "shared", Layouts: []eviction.Layout{eviction.LayoutShared}},
			{Name: "optional", EnabledBy: "trim"},
		}},
	}
	if diff := cmp.Diff(want, signals); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}

func TestTimesThatDoNotFitAreNoTime(t *testing.T) {
	for _, at := range []time.Time{{}, time.Date(1500, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got := decodeTime(encodeTime(at)); !got.IsZero() {
			t.Errorf("%s came back as %s, want no time", at, got)
		}
	}
	if now := time.Now(); !decodeTime(encodeTime(now)).Equal(now) {
		t.Error("now did not come back")
	}
}

// Who takes a built-in plugin apart clears OwnsLayout and keeps the Observer, which still
// reports a layout: that is not for others to see.
func TestALayoutIsReportedByItsOwnerAlone(t *testing.T) {
	for _, owns := range []bool{true, false} {
		p := eviction.Plugin{
			Name: "disk", Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable}}, OwnsLayout: owns,
			Observer: layoutObserver{},
		}
		reply, err := connect(t, p).Observer.Observe(t.Context(), eviction.ObserveRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}})
		if err != nil {
			t.Fatal(err)
		}
		if (reply.Layout != nil) != owns {
			t.Errorf("owner %t: layout %+v", owns, reply.Layout)
		}
	}
}

type layoutObserver struct{}

func (layoutObserver) Observe(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return eviction.ObserveReply{Layout: &eviction.LayoutReport{ImageFs: true}}, nil
}
