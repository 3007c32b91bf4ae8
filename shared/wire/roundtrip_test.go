package wire

import (
	"context"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

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
	roundTrip(t, "MeasureRequest", func(r eviction.MeasureRequest) *pluginv1.MeasureRequest {
		var e podEncoder
		for i := range r.Pods {
			e = e.wanting(&r.Pods[i])
		}
		return e.encodeMeasureRequest(r)
	}, decodeMeasureRequest)
	roundTrip(t, "Measurement", func(m eviction.Measurement) *pluginv1.Measurement {
		w := new(pluginv1.Measurement)
		encodeMeasurement(w, &m)
		return w
	}, func(w *pluginv1.Measurement) (m eviction.Measurement) {
		decodeMeasurement(&m, w)
		return m
	})
	roundTrip(t, "WatchRequest", encodeWatchRequest, decodeWatchRequest)
	roundTrip(t, "Wake", encodeWake, decodeWake)
	roundTrip(t, "RankRequest", func(r eviction.RankRequest) *pluginv1.RankRequest {
		var e podEncoder
		for i := range r.Candidates {
			e = e.wanting(&r.Candidates[i].Pod)
		}
		return e.encodeRankRequest(r)
	}, decodeRankRequest, func(r *eviction.RankRequest) {
		for i := range r.Candidates { // a candidate's measurement is always its own
			r.Candidates[i].Measurement.UID = r.Candidates[i].Pod.UID
		}
	})
	roundTrip(t, "Ranking", encodeRanking, decodeRanking)
	roundTrip(t, "ReclaimRequest", encodeReclaimRequest, decodeReclaimRequest)
	roundTrip(t, "Reclaimed", encodeReclaimed, decodeReclaimed)
	roundTrip(t, "Plugin", func(p eviction.Plugin) *pluginv1.DescribeResponse { return encodePlugin(&p) }, decodePlugin)
}

// wanting returns e for a receiver that wants to see all of p.
func (e podEncoder) wanting(p *eviction.Pod) podEncoder {
	for k := range maps.Keys(p.Labels) {
		e.labels = append(e.labels, k)
	}
	for k := range maps.Keys(p.Annotations) {
		e.annotations = append(e.annotations, k)
	}
	return e
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
	if got := decodeMeasureRequest(&pluginv1.MeasureRequest{}).Detail; got != eviction.DetailPod {
		t.Errorf("unspecified detail = %d, want pod", got)
	}
	if got := decodeReclaimRequest(&pluginv1.ReclaimRequest{Pods: []*pluginv1.PodPhase{{State: newer}}}).Pods[0].State; got != eviction.PodActive {
		t.Errorf("pod state = %d, want active, of which nothing may be removed", got)
	}
	var o eviction.Observation
	if decodeObservation(&o, &pluginv1.Observation{State: newer}); o.State != eviction.Unknown {
		t.Errorf("observation state = %d, want unknown", o.State)
	}
	var m eviction.Measurement
	if decodeMeasurement(&m, &pluginv1.Measurement{State: newer}); m.State != eviction.MeasurementUnknown {
		t.Errorf("measurement state = %d, want unknown", m.State)
	}

	signals := decodePlugin(&pluginv1.DescribeResponse{Signals: []*pluginv1.SignalSpec{
		{Signal: "all"},
		{Signal: "some", Capabilities: []pluginv1.Capability{newer, pluginv1.Capability_CAPABILITY_RANK}},
		{Signal: "none that we know", Capabilities: []pluginv1.Capability{newer}},
		{Signal: "steps", ReclaimSteps: []*pluginv1.ReclaimStep{
			{Name: "everywhere"},
			{Name: "shared", Layouts: []pluginv1.Layout{newer, pluginv1.Layout_LAYOUT_SHARED}},
			{Name: "nowhere that we know", Layouts: []pluginv1.Layout{newer}},
		}},
	}}).Signals
	want := []eviction.SignalSpec{
		{Signal: "all"},
		{Signal: "some", Capabilities: eviction.CanRank},
		{Signal: "steps", ReclaimSteps: []eviction.ReclaimStep{
			{Name: "everywhere"},
			{Name: "shared", Layouts: []eviction.Layout{eviction.LayoutShared}},
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
