package summary

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/shared/eviction"
)

var sameSummary = cmp.Options{cmpopts.IgnoreUnexported(Summary{}), cmpopts.EquateEmpty()}

func TestDecodeReadsWhatTheKubeletWrites(t *testing.T) {
	data := generate(50)
	want, _, err := decodeOracle(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, sameSummary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if p := got.Pod("11111111-2222-3333-4444-000000000007"); p == nil || p.Name != "web-7" || p.Namespace != "team-7" || p.Volumes[1].Name != "kube-api-access-00007" {
		t.Errorf("pod 7 is %+v", p)
	}
}

func TestDecodeFigures(t *testing.T) {
	for text, want := range map[string]eviction.Figure{
		"0":                    eviction.Some(0),
		"9223372036854775807":  eviction.Some(math.MaxInt64),
		"9223372036854775808":  eviction.Some(math.MinInt64), // as the kubelet casts
		"18446744073709551615": eviction.Some(-1),
		"null":                 {},
	} {
		s, err := Decode([]byte(`{"node":{"memory":{"availableBytes":` + text + `}}}`))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := s.Node.Memory.AvailableBytes; got != want {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]eviction.Figure{
		"-9223372036854775808": eviction.Some(math.MinInt64),
		"-1":                   eviction.Some(-1),
		"-0":                   eviction.Some(0),
		"9223372036854775807":  eviction.Some(math.MaxInt64),
	} {
		s, err := Decode([]byte(`{"node":{"rlimit":{"maxpid":` + text + `}}}`))
		if err != nil {
			t.Errorf("maxpid %s: %v", text, err)
		} else if got := s.Node.Rlimit.MaxPID; got != want {
			t.Errorf("maxpid %s: got %+v, want %+v", text, got, want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	inNode := func(s string) string { return `{"pods":[],"node":{` + s + `}}` }
	for name, c := range map[string]struct{ in, want string }{
		"nothing":               {``, "summary: document (byte 0): ends too early, want an object"},
		"null":                  {`null`, "summary: node: missing"},
		"an error object":       {`{"kind":"Status","status":"Failure"}`, "summary: node: missing"},
		"node null":             {`{"node":null}`, "summary: node: missing"},
		"another document":      {`[]`, "document (byte 0): an array, want an object"},
		"truncated":             {`{"node":{"memory":{"availableBytes":12`, "node.memory.availableBytes (byte 38): ends too early"},
		"truncated in a string": {`{"node":{"nodeName":"no`, "node.nodeName (byte 23): ends too early, want the end of a string"},
		"trailing":              {`{"node":{}} {}`, "document (byte 12): an object, want nothing more"},
		"negative":              {inNode(`"memory":{"availableBytes":-5}`), "node.memory.availableBytes (byte 46): a number, want a whole number"},
		"fraction":              {inNode(`"fs":{"inodes":1.5}`), "node.fs.inodes (byte 34): a number, want a whole number"},
		"exponent":              {inNode(`"fs":{"inodes":1e3}`), "node.fs.inodes (byte 34): a number, want a whole number"},
		"beyond uint64":         {inNode(`"fs":{"inodes":18446744073709551616}`), "node.fs.inodes (byte 34): a number that is too large, want one up to 18446744073709551615"},
		"beyond int64":          {inNode(`"rlimit":{"maxpid":9223372036854775808}`), "too large, want one up to 9223372036854775807"},
		"below int64":           {inNode(`"rlimit":{"curproc":-9223372036854775809}`), "node.rlimit.curproc"},
		"leading zero":          {inNode(`"fs":{"inodes":012}`), "node.fs.inodes (byte 35): a number, want ',' or '}'"},
		"a string":              {inNode(`"runtime":{"imageFs":{"capacityBytes":"12"}}`), "node.runtime.imageFs.capacityBytes (byte 57): a string, want a whole number"},
		"a list":                {inNode(`"memory":[]`), "node.memory (byte 28): an array, want an object"},
		"bad time":              {inNode(`"memory":{"time":"yesterday"}`), `node.memory.time (byte 47): "yesterday", want a time`},
		"deep in a pod": {
			`{"node":{},"pods":[{},{"containers":[{"name":"a"},{"name":7}]}]}`,
			"pods[1].containers[1].name (byte 58): a number, want a string",
		},
		"what is skipped":  {`{"node":{"cpu":{"usageNanoCores":+1}}}`, "node.cpu.usageNanoCores"},
		"a bad escape":     {`{"node":{"x":"\q"}}`, "node.x"},
		"a control byte":   {"{\"node\":{\"x\":\"a\nb\"}}", `the byte '\n' inside a string`},
		"a trailing comma": {`{"node":{},}`, "want a name"},
		"no name":          {`{"node":{7}}`, "summary: node (byte 9): a number, want a name"},
		"nested too deep":  {`{"node":{},"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, "nested deeper than 64"},
		"too many entries": {`{"node":{},"pods":[` + strings.Repeat("{},", maxEntries) + `{}]}`, "more than 262144 pods, containers and volumes"},
		"too large":        {strings.Repeat(" ", MaxBytes+1), "summary has 67108865 bytes, want at most 67108864"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Decode([]byte(c.in))
			if err == nil {
				t.Fatalf("got %+v, want an error", s)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %q, want %q in it", err, c.want)
			}
		})
	}
}

func TestDecodeKnowsNoMoreThanItNeeds(t *testing.T) {
	s, err := Decode([]byte("\n{ \"node\" : { \"node\\u004eame\":\"n\u00f6de\\n\", \"future\":[{\"a\":[1.5e-3,true,null,\"\\\"\"]}] , \"MEMORY\":7 } ,\t\"pods\":null }\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Summary{Node: Node{Name: "n\u00f6de\n"}}, s, sameSummary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
}

func TestTheLastEntryOfAPodCounts(t *testing.T) {
	s, err := Decode([]byte(`{"node":{},"pods":[{"podRef":{"uid":"a","name":"old"}},{"podRef":{"uid":"a","name":"new"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if p := s.Pod("a"); p == nil || p.Name != "new" {
		t.Errorf("pod is %+v, want the last one", p)
	}
	if p := s.Pod("b"); p != nil {
		t.Errorf("pod is %+v, want none", p)
	}
}

func FuzzDecode(f *testing.F) {
	// Short ones: the fuzzer takes minutes over shrinking what it finds in long ones.
	f.Add([]byte(`{"node":{"nodeName":"n","fs":{"time":"2026-03-01T12:00:09Z","availableBytes":1,"capacityBytes":2,"inodesFree":3,"inodes":4}}}`))
	f.Add([]byte(`{"node":{"runtime":{"imageFs":{"inodes":1},"containerFs":{"inodes":2}}},"pods":[{"podRef":{"uid":"u","name":"p"},"process_stats":{"process_count":3}}]}`))
	f.Add([]byte(`{"pods":[{"containers":[{"name":"c","memory":{"workingSetBytes":1},"rootfs":{"usedBytes":2},"logs":{}}],"ephemeral-storage":{"time":null,"usedBytes":3}}],"node":{}}`))
	f.Add([]byte(`{"node":{"rlimit":{"maxpid":-1,"curproc":null},"systemContainers":[{"name":"pods","memory":{"time":null}}]},"pods":[{"containers":null}]}`))
	f.Add([]byte(`{"node":{"memory":{"availableBytes":18446744073709551615,"time":"2026-03-01T12:00:09.5+01:00"}},"x":[[],{},"\u00e4\\",-1.5e+3]}`))
	f.Add([]byte(`{"node":{},"pods":[{"podRef":{"uid":"\ud800"},"volume":[{"usedBytes":01}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Decode(data)
		if err != nil {
			got = nil
		}
		want, twice, wantErr := decodeOracle(data)
		if twice || err != nil && strings.Contains(err.Error(), "nested deeper") {
			return
		}
		if diff := cmp.Diff(want, got, sameSummary); diff != "" {
			t.Errorf("error %v, the kubelet's decoder has %v; summary (-want +got):\n%s", err, wantErr, diff)
		}
		if got == nil {
			return
		}
		got.Measure(eviction.MeasureRequest{
			Detail: eviction.DetailContainers, Signals: eviction.BuiltinSignals(), Pods: []eviction.Pod{{UID: "11111111-2222-3333-4444-000000000000"}},
		}, eviction.LayoutShared, func(eviction.Measurement) {})
		for _, s := range eviction.BuiltinSignals() {
			got.Observe(s)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := generate(500)
	b.Run("summary", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Decode(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("go-json-experiment", func(b *testing.B) { // the best library, used as well as can be
		readTime := jsonv2.WithUnmarshalers(jsonv2.UnmarshalFromFunc(func(in *jsontext.Decoder, t *oracleTime) (err error) {
			text, err := in.ReadToken()
			if err == nil && text.Kind() == '"' {
				t.Time, err = time.Parse(time.RFC3339, text.String())
			}
			return err
		}))
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			var o oracle
			if err := jsonv2.Unmarshal(data, &o, jsontext.AllowDuplicateNames(true), readTime); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) { // the same fields, the peer to compare with
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			var o oracle
			if err := json.Unmarshal(data, &o); err != nil {
				b.Fatal(err)
			}
		}
	})
}
