package policy

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

// printed shows thresholds with all that the grammar sets.
func printed(thresholds []Threshold) []string {
	out := []string{}
	for _, t := range thresholds {
		s := t.String()
		if t.MinReclaim != nil {
			s += " +" + t.MinReclaim.String()
		}
		out = append(out, s)
	}
	return out
}

func TestParseThresholds(t *testing.T) {
	for name, c := range map[string]struct {
		config ThresholdConfig
		want   []string
	}{
		"nothing is nothing": {},
		"defaults": {
			config: ThresholdConfig{Hard: DefaultHard()},
			want: []string{
				"imagefs.available<15%", "imagefs.inodesFree<5%", "memory.available<100Mi",
				"nodefs.available<10%", "nodefs.inodesFree<5%",
			},
		},
		"hard before soft, by name, allocatable copies last": {
			config: ThresholdConfig{
				Hard:                   map[string]string{"pid.available": "100", "memory.available": "5%"},
				Soft:                   map[string]string{"memory.available": "1Gi"},
				SoftGracePeriod:        map[string]string{"memory.available": "1m30s"},
				MinReclaim:             map[string]string{"memory.available": "500Mi"},
				EnforceNodeAllocatable: []string{"kube-reserved", "pods"},
			},
			want: []string{
				"memory.available<5% +500Mi", "pid.available<100", "memory.available<1Gi for 1m30s +500Mi",
				"allocatableMemory.available<5% +500Mi",
			},
		},
		"user-set allocatable memory and the copy coexist": {
			config: ThresholdConfig{
				Hard:                   map[string]string{"allocatableMemory.available": "1Gi", "memory.available": "2Gi"},
				EnforceNodeAllocatable: []string{"pods"},
			},
			want: []string{"allocatableMemory.available<1Gi", "memory.available<2Gi", "allocatableMemory.available<2Gi"},
		},
		"0% and 100% switch off, also a soft one without grace period": {
			config: ThresholdConfig{
				Hard: map[string]string{"memory.available": "0%", "nodefs.available": "100%"},
				Soft: map[string]string{"memory.available": "0%"},
			},
		},
		"traps of percentages": {
			config: ThresholdConfig{Hard: map[string]string{
				"memory.available": "0.0%", "nodefs.available": "100.0%", "imagefs.available": "10%%", "pid.available": "1e1%",
				"nodefs.inodesFree": "0x1p3%", "containerfs.available": "+5%", "containerfs.inodesFree": "-0%",
			}},
			want: []string{
				"containerfs.available<5%", "containerfs.inodesFree<-0%", "imagefs.available<10%",
				"memory.available<0%", "nodefs.available<100%", "nodefs.inodesFree<8%", "pid.available<10%",
			},
		},
		"soft without a threshold, extra grace and min reclaim are fine": {
			config: ThresholdConfig{
				SoftGracePeriod: map[string]string{"memory.available": "1m"},
				MinReclaim:      map[string]string{"memory.available": "1Gi"},
			},
		},
		"min reclaim of zero and above 100%": {
			config: ThresholdConfig{
				Hard:       map[string]string{"memory.available": "1Gi", "nodefs.available": "1Gi"},
				MinReclaim: map[string]string{"memory.available": "0", "nodefs.available": "150%"},
			},
			want: []string{"memory.available<1Gi +0", "nodefs.available<1Gi +150%"},
		},
		"grace period of zero": {
			config: ThresholdConfig{
				Soft:            map[string]string{"memory.available": "1.5Gi"},
				SoftGracePeriod: map[string]string{"memory.available": "0"},
			},
			want: []string{"memory.available<1536Mi"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseThresholds(c.config)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append([]string{}, c.want...), printed(got)); diff != "" {
				t.Errorf("thresholds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseThresholdsErrors(t *testing.T) {
	hard := func(s, text string) ThresholdConfig { return ThresholdConfig{Hard: map[string]string{s: text}} }
	minReclaim := func(text string) ThresholdConfig {
		return ThresholdConfig{Hard: map[string]string{"memory.available": "1Gi"}, MinReclaim: map[string]string{"memory.available": text}}
	}
	soft := func(grace map[string]string) ThresholdConfig {
		return ThresholdConfig{Soft: map[string]string{"memory.available": "1Gi"}, SoftGracePeriod: grace}
	}
	for name, c := range map[string]struct {
		config ThresholdConfig
		// want are parts of the error's lines, in this order.
		want []string
	}{
		"unknown signal": {
			hard("memory.free", "1Gi"),
			[]string{`evictionHard["memory.free"]: unsupported eviction signal memory.free; want one of memory.available, `},
		},
		"not a quantity": {
			hard("memory.available", "abc"),
			[]string{`evictionHard["memory.available"]: "abc": quantities must match the regular expression`},
		},
		"what would be right":  {hard("memory.available", ""), []string{`want a quantity such as "1Gi" or a percentage such as "10%"`}},
		"unknown suffix":       {hard("memory.available", "1GG"), []string{`"1GG": unable to parse quantity's suffix`}},
		"not a number":         {hard("memory.available", "NaN%"), []string{`evictionHard["memory.available"]: "NaN%": is not a number; want a percentage between 0% and 100%`}},
		"no number to reclaim": {ThresholdConfig{MinReclaim: map[string]string{"memory.available": "nan%"}}, []string{`evictionMinimumReclaim["memory.available"]: "nan%": is not a number; want a percentage such as "5%"`}},
		"no end of reclaim":    {ThresholdConfig{MinReclaim: map[string]string{"memory.available": "+Inf%"}}, []string{`"+Inf%": is not a finite number; want a percentage such as "5%"`}},
		"endless exponent":     {hard("memory.available", "1e2147483647"), []string{`"1e2147483647": exponent "e2147483647" is too large`}},
		"endlessly small":      {hard("memory.available", "1e-999999999"), []string{`evictionHard["memory.available"]: "1e-999999999": exponent "e-999999999" is too large; want a quantity`}},
		"zero":                 {hard("memory.available", "0"), []string{"eviction threshold memory.available must be positive: 0"}},
		"negative":             {hard("memory.available", "-1024Mi"), []string{"eviction threshold memory.available must be positive: -1Gi"}},
		"above 100%":           {hard("memory.available", "101%"), []string{"eviction percentage threshold memory.available must be <= 100%: 101%"}},
		"infinite":             {hard("memory.available", "Inf%"), []string{"eviction percentage threshold memory.available must be <= 100%: Inf%"}},
		"below 0%":             {hard("memory.available", "-1%"), []string{"eviction percentage threshold memory.available must be >= 0%: -1%"}},
		"not a percentage":     {hard("memory.available", "abc%"), []string{`strconv.ParseFloat: parsing "abc": invalid syntax`}},
		"too large a float":    {hard("memory.available", "1e99%"), []string{`strconv.ParseFloat: parsing "1e99": value out of range`}},
		"only a percent sign":  {hard("memory.available", "%"), []string{`strconv.ParseFloat: parsing "": invalid syntax`}},
		"soft without grace": {
			soft(nil),
			[]string{`evictionSoftGracePeriod["memory.available"]: grace period must be specified for the soft eviction threshold memory.available; want a duration`},
		},
		"not a duration":     {soft(map[string]string{"memory.available": "1"}), []string{`"1": time: missing unit in duration "1"`}},
		"negative duration":  {soft(map[string]string{"memory.available": "-1s"}), []string{"invalid eviction grace period specified: -1s, must be a positive value"}},
		"grace of unknown":   {soft(map[string]string{"x": "1s"}), []string{`evictionSoftGracePeriod["x"]: unsupported eviction signal x`, "must be specified"}},
		"min reclaim 0%":     {minReclaim("0%"), []string{"eviction percentage minimum reclaim memory.available must be positive: 0%"}},
		"min reclaim -1%":    {minReclaim("-1%"), []string{"eviction percentage minimum reclaim memory.available must be positive: -1%"}},
		"min reclaim -1":     {minReclaim("-1"), []string{`evictionMinimumReclaim["memory.available"]: "-1": negative eviction minimum reclaim specified for memory.available`}},
		"min reclaim suffix": {minReclaim("1GG"), []string{"unable to parse quantity's suffix"}},
		"min reclaim of unknown": {
			ThresholdConfig{MinReclaim: map[string]string{"y": "1"}},
			[]string{`evictionMinimumReclaim["y"]: unsupported eviction signal y`},
		},
		"all at once, in order": {
			ThresholdConfig{
				Hard:            map[string]string{"z": "1", "memory.available": "0", "a": "1"},
				Soft:            map[string]string{"nodefs.available": "x", "memory.available": "1Gi"},
				SoftGracePeriod: map[string]string{"memory.available": "soon"},
				MinReclaim:      map[string]string{"memory.available": "-1"},
			},
			[]string{
				`evictionHard["a"]`, `evictionHard["memory.available"]`, `evictionHard["z"]`, `evictionSoft["nodefs.available"]`,
				`evictionSoftGracePeriod["memory.available"]`, `evictionMinimumReclaim["memory.available"]`, `evictionSoftGracePeriod["nodefs.available"]`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseThresholds(c.config)
			if err == nil {
				t.Fatalf("accepted as %v", printed(got))
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("%d errors, want %d:\n%v", len(lines), len(c.want), err)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("error %d is\n%s\nwant it to have\n%s", i, lines[i], want)
				}
			}
		})
	}
}

const spare eviction.Signal = "acme.example/nvme.spare"

// spareDefinition returns a plugin's definition of spare.
func spareDefinition() eviction.Definition {
	return eviction.Definition{
		Unit: "blocks", Format: eviction.FormatDecimalSI, Resource: "acme.example/nvme-spare", Condition: "acme.example/NVMePressure",
	}
}

func TestOwnSignalsHaveTheKubeletsGrammar(t *testing.T) {
	config := ThresholdConfig{
		Hard:            map[string]string{"memory.available": "1Gi", string(spare): "5%"},
		Soft:            map[string]string{string(spare): "2k"},
		SoftGracePeriod: map[string]string{string(spare): "1m30s"},
		MinReclaim:      map[string]string{string(spare): "1%"},
	}
	if _, err := ParseThresholds(config); err == nil {
		t.Error("a signal that nobody knows was accepted")
	}
	got, err := ParseThresholds(config, spare)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, th := range got {
		text := th.String()
		if th.MinReclaim != nil {
			text += " and " + th.MinReclaim.String()
		}
		texts = append(texts, text)
		if builtin := th.Signal != spare; th.Defined() != builtin {
			t.Errorf("%s: defined %v before a plugin has come", th, th.Defined())
		}
	}
	want := []string{"acme.example/nvme.spare<5% and 1%", "memory.available<1Gi", "acme.example/nvme.spare<2k for 1m30s and 1%"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("thresholds (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"no number": "five", "negative": "-1", "more than all": "101%", "nothing": "0",
	} {
		_, err := ParseThresholds(ThresholdConfig{Hard: map[string]string{string(spare): text}}, spare)
		if err == nil || !strings.HasPrefix(err.Error(), `evictionHard["acme.example/nvme.spare"]: "`+text+`": `) {
			t.Errorf("%s: %v, want an error at the signal", name, err)
		}
	}
	_, err = ParseThresholds(ThresholdConfig{Soft: map[string]string{string(spare): "5%"}}, spare)
	if want := "grace period must be specified for the soft eviction threshold " + string(spare); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("soft without a grace period: %v, want %q", err, want)
	}
}

func TestDefine(t *testing.T) {
	plain, err := ParseThresholds(ThresholdConfig{Hard: map[string]string{string(spare): "5%", "memory.available": "1Gi"}}, spare)
	if err != nil {
		t.Fatal(err)
	}
	other := spareDefinition()
	other.Unit = "percent"
	wrong := map[eviction.Signal]eviction.Definition{spare: spareDefinition(), eviction.MemoryAvailable: other}
	first := Define(plain, wrong)
	if d := first[0].Definition(); d != spareDefinition() || plain[0].Defined() {
		t.Errorf("defined as %+v; the original is defined: %v", d, plain[0].Defined())
	}
	if d, _ := eviction.Builtin(eviction.MemoryAvailable); first[1].Definition() != d.Definition {
		t.Errorf("memory.available was defined anew, as %+v", first[1].Definition())
	}
	if first[0].Key() == Define(plain, map[eviction.Signal]eviction.Definition{spare: other})[0].Key() {
		t.Error("timers of one definition would go on under another")
	}
	if again := Define(first, wrong); again[0].Key() != first[0].Key() {
		t.Error("the same definition makes another threshold")
	}
	if gone := Define(first, nil); gone[0].Defined() || !gone[1].Defined() {
		t.Errorf("without a plugin: %s defined %v, %s defined %v", gone[0], gone[0].Defined(), gone[1], gone[1].Defined())
	}
}

func TestDefaultHardIsACopy(t *testing.T) {
	clear(DefaultHard())
	if len(DefaultHard()) != 5 {
		t.Error("a caller changed the defaults")
	}
}

func FuzzParseThresholds(f *testing.F) {
	for _, s := range []string{
		"1Gi", "0%", "100%", "0.0%", "100.0%", "10%%", "NaN%", "1e1%", "0x1p3%", "101%", "-1%", "Inf%", "%", "", "0", "-1Gi",
		"0.5", "500m", "1e999", "1e-999", "9223372036854775807", "9Ei", "1e30", "100E", "1n", "+.5Ki",
	} {
		f.Add("memory.available", s, s, "1m30s", s, int64(8<<30), int64(1<<30))
	}
	f.Add(string(spare), "10%", "2k", "1m30s", "5%", int64(1000), int64(99))
	f.Add("acme.example/a/b", "10%", "2k", "1m30s", "5%", int64(1000), int64(99))
	f.Add("pid.available", "100", "50%", "0", "0", int64(32768), int64(-1))
	f.Add("nodefs.inodesFree", "5%", "abc", "-1s", "150%", int64(math.MaxInt64), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, signal, hard, soft, grace, reclaim string, capacity, available int64) {
		one := func(text string) map[string]string { return map[string]string{signal: text} }
		config := ThresholdConfig{
			Hard: one(hard), Soft: one(soft), SoftGracePeriod: one(grace), MinReclaim: one(reclaim),
			EnforceNodeAllocatable: []string{"pods"},
		}
		thresholds, err := ParseThresholds(config, spare)
		again, err2 := ParseThresholds(config, spare)
		if (err == nil) != (err2 == nil) || err != nil && err.Error() != err2.Error() {
			t.Fatalf("not deterministic: %v and %v", err, err2)
		}
		if err != nil {
			if thresholds != nil {
				t.Fatal("thresholds beside an error")
			}
			return
		}
		o := eviction.Observation{Signal: eviction.Signal(signal), State: eviction.Observed, Available: available, Capacity: max(0, capacity)}
		for i, th := range thresholds {
			checkParsed(t, th, again[i], o)
		}
	})
}

func checkParsed(t *testing.T, th, again Threshold, o eviction.Observation) {
	t.Helper()
	if th.Key() != again.Key() || th.String() != again.String() {
		t.Fatalf("%s and %s from the same text", th, again)
	}
	before := th.Key()
	w := th.Wire()
	if !th.Value.IsPercentage && w.Amount <= 0 {
		t.Fatalf("wire amount of %s is %d", th, w.Amount)
	}
	if o.Capacity < math.MaxInt64/2 {
		if got, want := o.Available < w.Of(o.Capacity), th.met(o, false); got != want {
			t.Fatalf("%s at %d of %d: met by the wire form %v, by the host %v", th, o.Available, o.Capacity, got, want)
		}
	}
	if th.met(o, false) && !th.met(o, true) {
		t.Fatalf("%s is met, but not with min reclaim on top", th)
	}
	if s := Shortfall(th, o); s < 1 {
		t.Fatalf("shortfall of %s is %d", th, s)
	}
	amount := th.Amount(o.Capacity)
	amount.Add(th.required(o.Capacity))
	if th.Key() != before {
		t.Fatalf("%s changed by being used", th)
	}
}

func TestKeysAreEqualForEqualValues(t *testing.T) {
	key := func(text string) Key {
		t.Helper()
		got, err := ParseThresholds(ThresholdConfig{Hard: map[string]string{"memory.available": text}})
		if err != nil {
			t.Fatal(err)
		}
		return got[0].Key()
	}
	for name, same := range map[string][]string{
		"one GiB":     {"1Gi", "1024Mi", "1073741824", "1073741824000m", "1.0Gi"},
		"one billion": {"1G", "1e9", "1000M", "1000000000"},
		"a half":      {"0.5", "500m", "5e-1", "0.50"},
		"beyond":      {"1e30", "1000e27"},
		"ten percent": {"10%", "1e1%", "10.0%", "10%%"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, text := range same {
				if got, want := key(text), key(same[0]); got != want {
					t.Errorf("key of %s is %v, of %s %v", text, got, same[0], want)
				}
			}
		})
	}
	all := map[Key]string{}
	for _, text := range []string{"1Gi", "1073741825", "1G", "10%", "10.00001%", "0.0%", "1", "1m"} {
		if other, ok := all[key(text)]; ok {
			t.Errorf("%s and %s have the same key", text, other)
		}
		all[key(text)] = text
	}
	soft := Threshold{Signal: "memory.available", GracePeriod: time.Second}
	if hard := (Threshold{Signal: "memory.available"}); hard.Key() == soft.Key() {
		t.Error("the grace period is not part of the key")
	}
}
