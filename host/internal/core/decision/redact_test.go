package decision

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func soft(t *testing.T) *Decision {
	t.Helper()
	data, err := os.ReadFile("testdata/soft.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// written sets each text of a value. It makes empty lists and missing parts have one.
func written(v reflect.Value, text func() string) {
	switch v.Kind() { //nolint:exhaustive // a record has no others
	case reflect.String:
		v.SetString(text())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		written(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			written(v.Index(i), text)
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("key"), reflect.ValueOf(text()))
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for _, field := range v.Fields() {
			written(field, text)
		}
	}
}

// Whichever field names a pod of another namespace, now or later: the name is away.
func TestNoFieldNamesAPodOfAnotherNamespace(t *testing.T) {
	for _, pattern := range []string{"secret/pod-%d", "waits for the end of secret/pod-%d, and more", "secret/<pod %d>", "(secret/pod-%d)", "uid 5f3a9c21-1234-4321-abcd-%012d", "kubepods-pod5f3a9c21_1234_4321_abcd_%012d.slice"} {
		n := 0
		var d Decision
		written(reflect.ValueOf(&d).Elem(), func() string { n++; return fmt.Sprintf(pattern, n) })
		d.Version, d.ID, d.Order = Version, "20260101T120050.000Z-5f3a9c21", nil
		for i := range d.Candidates {
			d.Candidates[i].Pod = fmt.Sprintf("secret/<pod %d>", i)
		}
		if strings.Contains(pattern, "<pod") { // in a text it is known by the record's fields alone
			for i := range n + 1 {
				d.Protected = append(d.Protected, Protected{Pod: fmt.Sprintf(pattern, i)})
			}
		}
		redacted, err := ForNamespace([]*Decision{&d}, "shop")
		if err != nil {
			t.Fatal(err)
		}
		document, err := json.MarshalIndent(redacted[0], "", " ")
		if err != nil || n < 40 {
			t.Fatal(n, err)
		}
		for line := range strings.Lines(string(document)) {
			if strings.Contains(line, "secret") || strings.Contains(line, "5f3a9c21-1") || strings.Contains(line, "5f3a9c21_1") || strings.Contains(line, `pod \u003c`) {
				t.Errorf("%q: left: %s", pattern, line)
			}
		}
	}
}

// The own pods, and all figures, stay as they are.
func TestOwnPodsStay(t *testing.T) {
	d := soft(t)
	uid := "5f3a9c21-1234-4321-abcd-0123456789ab"
	d.Candidates[1].UID, d.Victim.UID, d.Inputs = uid, uid, []Input{{Reason: "pod5f3a9c21_1234_4321_abcd_0123456789ab.slice is slow"}}
	same, err := ForNamespace([]*Decision{d}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, same[0]); diff != "" {
		t.Errorf("another record: %s", diff)
	}
	d.Candidates[0].Pod, d.Candidates[0].Usage = "cache/web", 1<<60+1
	d.Marks = []Mark{{What: MarkWait, Text: "waits for the end of cache/web, then shop/report, for evictd.io/scratch.available by quay.io/acme/disk"}}
	d.Growth = &Growth{Most: []Grown{{UID: d.Candidates[0].UID, Pod: "cache/web", By: 1}}}
	redacted, err := ForNamespace([]*Decision{d, d}, "shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range redacted {
		if got := r.Candidates[0]; got.Pod != "another pod 1" || got.UID != got.Pod || got.Usage != 1<<60+1 || r.Growth.Most[0].Pod != got.Pod {
			t.Errorf("candidate %+v, growth %+v", got, r.Growth)
		}
		if got, want := r.Marks[0].Text, "waits for the end of another pod 1, then shop/report, for evictd.io/scratch.available by quay.io/acme/disk"; got != want {
			t.Errorf("mark %q, want %q", got, want)
		}
		if r.Candidates[1].Pod != "shop/report" || r.Candidates[1].UID != uid || r.Victim.Message == "" {
			t.Errorf("victim %+v", r.Victim)
		}
	}
	if d.Candidates[0].Pod != "cache/web" {
		t.Error("the decision itself was changed")
	}
}

// A name that no rule of names permits is known by the field that it is in.
func TestAFieldForAPodNeedsNoRuleOfNames(t *testing.T) {
	const odd, container = "Secret/<b>", "Container main was using 3Gi"
	for field, set := range map[string]func(d *Decision){
		"candidates": func(d *Decision) {
			d.Candidates[0] = Candidate{UID: odd, Pod: odd, Owner: odd, Reason: container, Err: container, Labels: map[string]string{container: ""}}
		},
		"protected": func(d *Decision) { d.Protected = []Protected{{UID: odd, Pod: odd}} },
		"victim":    func(d *Decision) { d.Victim = &Victim{UID: odd, Pod: odd, Owner: odd, Message: container} },
		"curves":    func(d *Decision) { d.Curves = []string{odd} },
		"first":     func(d *Decision) { d.Usage = []UsageSample{{First: odd}} },
		"growth":    func(d *Decision) { d.Growth = &Growth{Most: []Grown{{UID: odd, Pod: odd}}} },
	} {
		d := soft(t)
		d.Victim.Message = ""
		set(d)
		redacted, err := ForNamespace([]*Decision{d}, "shop")
		if err != nil {
			t.Fatal(err)
		}
		if document, _ := json.Marshal(redacted[0]); strings.Contains(string(document), "Secret") || strings.Contains(string(document), container) || !strings.Contains(string(document), "another pod 1") {
			t.Errorf("%s: %s", field, document)
		}
	}
}
