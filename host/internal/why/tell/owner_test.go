package tell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

// A marked value has a mark of its own in each field, list and map. of has the path of each mark.
type marked struct {
	of    map[string]string
	count int64
}

func (m *marked) fill(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	m.count++
	number := 70_000_001 + 10*m.count // as long as any other, without a zero at its end
	mark := fmt.Sprint(number)
	switch v.Kind() {
	case reflect.String:
		mark = "(" + path + ")"
		v.SetString(mark)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(number)
	case reflect.Uint64:
		v.SetUint(uint64(number))
	case reflect.Float64:
		v.SetFloat(float64(number))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(t, v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			m.fill(t, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		m.fill(t, key, path+"[key]")
		m.fill(t, value, path+"[value]")
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			at := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, int(m.count))
			mark = at.Format(time.DateOnly)
			v.Set(reflect.ValueOf(at))
			break
		}
		for i := range v.NumField() {
			m.fill(t, v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."))
		}
	default:
		t.Fatalf("%s: a %v has no mark", path, v.Kind())
	}
	m.of[mark] = path
}

// ownerForms returns the view of a decision in each of its forms.
func ownerForms(t *testing.T, d *decision.Decision) map[string]string {
	t.Helper()
	o, document := Owner(d), bytes.Buffer{}
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(o); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"text": string(o.Text()), "JSON": document.String(), "HTML": string(o.HTML("shop/report"))}
}

// Images and log directories of other tenants were in texts that an owner got.
func TestAnOwnerSeesNothingButTheTenFields(t *testing.T) {
	if n := reflect.TypeFor[OwnerView]().NumField(); n != 10 {
		t.Errorf("%d fields", n)
	}
	always := []string{"Time", "Node", "Victim.Message"}
	for name, c := range map[string]struct {
		set func(d *decision.Decision)
		// seen are the fields that reach the owner.
		seen     []string
		sparedBy string
	}{
		"of a vendor's signal": {
			func(d *decision.Decision) { d.Observations[1].Signal = d.Thresholds[0].Signal },
			[]string{
				"Thresholds[0].Signal", "Thresholds[0].Value", "Thresholds[0].GracePeriod", "Thresholds[0].Custom.Unit", "Observations[1].Available", "Candidates[1].Usage",
				"Candidates[1].Parts[0].Name", "Candidates[1].Parts[0].Used", "Candidates[1].Parts[1].Name", "Candidates[1].Parts[1].Used",
			},
			"",
		},
		"of processes": {
			func(d *decision.Decision) {
				d.Thresholds[0].Signal, d.Thresholds[0].Custom = eviction.PIDAvailable, nil
			},
			[]string{
				"Thresholds[0].Value", "Thresholds[0].GracePeriod", "Candidates[1].Usage",
				"Candidates[1].Parts[0].Name", "Candidates[1].Parts[0].Used", "Candidates[1].Parts[1].Name", "Candidates[1].Parts[1].Used",
			},
			"",
		},
		"of memory, with a request that spares it": {
			func(d *decision.Decision) { memory(d); d.Usage = nil },
			[]string{"Thresholds[0].Value", "Thresholds[0].GracePeriod", "Candidates[1].Parts[0].Name", "Candidates[1].Parts[1].Name"},
			"a request of ",
		},
		"of memory that grows": {
			func(d *decision.Decision) {
				memory(d)
				d.Curves[0], d.Usage[1] = d.Candidates[1].Pod, decision.UsageSample{MS: d.Timeline.ObservedMS - 2000, Used: []int64{0}, First: d.Usage[1].First}
			},
			[]string{"Candidates[1].Parts[0].Name", "Candidates[1].Parts[1].Name", "Thresholds[0].Value", "Thresholds[0].GracePeriod"},
			"it was still growing by ",
		},
		"over a limit of its own": {
			func(d *decision.Decision) {
				d.Thresholds[0].Acted, d.Thresholds[1].Acted, d.Kind = false, false, decision.KindLimit
			},
			[]string{"Thresholds[0].Signal", "Victim.Why"},
			"(Victim.Why)",
		},
		"of another signal than its own": {
			func(d *decision.Decision) { d.Thresholds[0].Acted = false; d.Thresholds[1].Acted = false }, []string{"Thresholds[0].Signal"}, "",
		},
	} {
		m, d := marked{of: map[string]string{}}, &decision.Decision{}
		m.fill(t, reflect.ValueOf(d).Elem(), "")
		if len(m.of) < 150 {
			t.Fatalf("only %d marks", len(m.of))
		}
		d.Order, d.Candidates[1].UID, d.Candidates[1].Pod, d.Candidates[1].State = []int{1, 0}, d.Victim.UID, d.Victim.Pod, ""
		d.Observations[1].State = decision.StateObserved
		c.set(d)
		d.Victim.Signal = string(d.Thresholds[0].Signal)
		if got := Owner(d).SparedBy; !strings.HasPrefix(got, c.sparedBy) || (got == "") != (c.sparedBy == "") {
			t.Errorf("%s: spared by %q, want %q", name, got, c.sparedBy)
		}
		want := slices.Sorted(slices.Values(append(slices.Clone(always), c.seen...)))
		for form, text := range ownerForms(t, d) {
			var seen []string
			for mark := range maps.Keys(m.of) {
				if strings.Contains(text, mark) {
					seen = append(seen, m.of[mark])
				}
			}
			slices.Sort(seen)
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("%s: %s has the fields (-want +got):\n%s", name, form, diff)
			}
		}
	}
}

// memory makes a decision one of the kubelet's order for memory, in which the second pod is the victim.
func memory(d *decision.Decision) {
	d.Thresholds[0].Signal, d.Thresholds[0].Custom, d.Ranker = eviction.MemoryAvailable, nil, nil
	d.Candidates[0].State, d.Candidates[1].AtMost = "", 0
	d.Candidates[0].Priority, d.Candidates[1].Priority = 0, 0
	d.Candidates[1].Usage *= 3
}

func TestAnOwnerSeesTheOwnVolumesOfADisk(t *testing.T) {
	d := example()
	d.Thresholds[1].Signal, d.Observations[0].Signal, d.Victim.Signal = eviction.NodeFsAvailable, eviction.NodeFsAvailable, string(eviction.NodeFsAvailable)
	own := &d.Candidates[1]
	own.AtMost, own.StorageRequest = 4*gibibyte, gibibyte
	own.Parts = []decision.Part{{Name: "emptyDir scratch", Used: 2 * gibibyte}, {Name: "logs", Used: gibibyte}}
	text := ownerForms(t, d)["text"]
	for _, want := range []string{"own use       at least 3Gi, request is 1Gi", "own volumes   2Gi in emptyDir scratch, 1Gi in logs", "spared by     -"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	own.State = decision.StateNoStats
	if text := ownerForms(t, d)["text"]; !strings.Contains(text, "own use       not known, request is 1Gi") {
		t.Errorf("a use that is not known:\n%s", text)
	}
}

// The owner chooses names of volumes, and a plugin those of signals: markup in them is text.
func TestMarkupIsTextOnThePageOfAnOwner(t *testing.T) {
	page := func(text string) parsed {
		d := example()
		d.Node, d.Victim.Message = text, text
		d.Candidates[1].Parts = []decision.Part{{Name: text}}
		o := Owner(d)
		return parse(t, o.HTML("shop/"+text))
	}
	plain := page("x")
	for _, markup := range []string{`</dd><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</style></title><style>*{color:red}`, "\x00\x1b[31m\u202e<svg/onload=1>"} {
		got := page(markup)
		if diff := cmp.Diff(plain.tags, got.tags); diff != "" || len(plain.attrs) != len(got.attrs) {
			t.Errorf("%q changes elements (-want +got):\n%s", markup, diff)
		}
		if markup[0] > ' ' && strings.Count(got.text, markup) != 5 {
			t.Errorf("%q is not shown as it is in\n%s", markup, got.text)
		}
	}
}

// Without uids two pods look alike: the name counts, too.
func TestAnOwnerSeesNoFiguresOfAnotherPod(t *testing.T) {
	d := example()
	d.Candidates[0].UID, d.Candidates[1].UID, d.Victim.UID, d.Victim.Pod = "", "", "", "shop/third"
	if o := Owner(d); o.Use != (OwnUse{}) || o.Rank != (OwnRank{}) || o.SparedBy != "" || o.Available != "900Mi" {
		t.Errorf("%+v", o)
	}
}
