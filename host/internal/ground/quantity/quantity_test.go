package quantity

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The library computes a power of ten with a hundred million digits for this.
const endless = "1E-99999999"

func TestAmountsThatTakeTooLongAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		endless:                          `exponent "E-99999999" is too large`,
		"1e1000":                         `exponent "e1000" is too large`,
		"1e+0001000":                     `exponent "e+0001000" is too large`,
		" 1e1000 ":                       `exponent "e1000" is too large`,
		strings.Repeat("9", 1<<20):       "has 1048576 characters, want at most 100",
		"1" + strings.Repeat("0", 100):   "has 101 characters, want at most 100",
		"1e" + strings.Repeat("0", 1000): "has 1002 characters, want at most 100",
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
}

func TestAmountsOfTheKubeletAreTaken(t *testing.T) {
	for _, text := range []string{"0", "1Gi", "100E", "500m", "1e3", "1E", "1e999", "1e-999", "1e0003", "-1Gi", "0." + strings.Repeat("0", 90) + "1"} {
		got, err := Parse(text)
		want, wantErr := resource.ParseQuantity(text)
		if err != nil || wantErr != nil || got.Cmp(want) != 0 {
			t.Errorf("%q: %v, %v, want %v, %v", text, &got, err, &want, wantErr)
		}
	}
	if _, err := Parse("lots"); err == nil || !strings.Contains(err.Error(), "quantities must match") {
		t.Errorf("lots: %v, want the library's words", err)
	}
}

// Each place of a pod that holds an amount, so that none of them is decoded.
func TestAmountsAreFoundWhereverAPodHasOne(t *testing.T) {
	for path, doc := range map[string]string{
		"spec.containers[1].resources.requests.memory":                          `{"spec":{"containers":[{},{"resources":{"requests":{"memory":Q}}}]}}`,
		"spec.containers[0].resources.limits.cpu":                               `{"spec":{"containers":[{"resources":{"limits":{"cpu":Q}}}]}}`,
		"spec.initContainers[0].resources.requests.memory":                      `{"spec":{"initContainers":[{"resources":{"requests":{"memory":Q}}}]}}`,
		"spec.ephemeralContainers[0].resources.requests.memory":                 `{"spec":{"ephemeralContainers":[{"resources":{"requests":{"memory":Q}}}]}}`,
		"spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor":          `{"spec":{"containers":[{"env":[{"valueFrom":{"resourceFieldRef":{"divisor":Q}}}]}]}}`,
		"spec.overhead.memory":                                                  `{"spec":{"overhead":{"memory":Q}}}`,
		"spec.resources.requests.memory":                                        `{"spec":{"resources":{"requests":{"memory":Q}}}}`,
		"spec.volumes[0].emptyDir.sizeLimit":                                    `{"spec":{"volumes":[{"emptyDir":{"sizeLimit":Q}}]}}`,
		"spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.limits.x": `{"spec":{"volumes":[{"ephemeral":{"volumeClaimTemplate":{"spec":{"resources":{"limits":{"x":Q}}}}}}]}}`,
		"status.containerStatuses[0].allocatedResources.memory":                 `{"status":{"containerStatuses":[{"allocatedResources":{"memory":Q}}]}}`,
		"status.containerStatuses[0].resources.requests.memory":                 `{"status":{"containerStatuses":[{"resources":{"requests":{"memory":Q}}}]}}`,
		"status.initContainerStatuses[0].resources.limits.ephemeral-storage":    `{"status":{"initContainerStatuses":[{"resources":{"limits":{"ephemeral-storage":Q}}}]}}`,
		"status.resources.requests.cpu":                                         `{"status":{"resources":{"requests":{"cpu":Q}}}}`,
		"status.allocatedResources.memory":                                      `{"status":{"allocatedResources":{"memory":Q}}}`,
		"spec.overhead.cpu":                                                     `{"spec":{"overhead":{"cpu":Q,"cpu":"1"}}}`,
		"spec.resources.limits.memory":                                          `{"spec":{"resources":{"limits":{"memory":Q}},"resources":null}}`,
	} {
		for _, q := range []string{`"` + endless + `"`, endless} {
			err := CheckJSON([]byte(strings.ReplaceAll(doc, "Q", q)), reflect.TypeFor[v1.Pod]())
			if want := path + `: "` + endless + `": exponent "E-99999999" is too large`; err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			if err := CheckJSON([]byte(strings.ReplaceAll(doc, "Q", `"1Gi"`)), reflect.TypeFor[v1.Pod]()); err != nil {
				t.Errorf("%s of 1Gi: %v", path, err)
			}
		}
	}
}

// Every quantity that a pod can have is reached by CheckJSON: a newer API brings
// its own.
func TestNoFieldOfAPodIsOverlooked(t *testing.T) {
	places := 0
	var each func(t reflect.Type, open, end string, seen []reflect.Type)
	each = func(of reflect.Type, open, end string, seen []reflect.Type) {
		switch {
		case of == reflect.TypeFor[resource.Quantity]():
			places++
			if CheckJSON([]byte(open+`"`+endless+`"`+end), reflect.TypeFor[v1.Pod]()) == nil {
				t.Errorf("%s%s is not found", open, end)
			}
		case of.Kind() == reflect.Pointer:
			each(of.Elem(), open, end, seen)
		case of.Kind() == reflect.Slice:
			each(of.Elem(), open+"[", "]"+end, seen)
		case of.Kind() == reflect.Map:
			each(of.Elem(), open+`{"x":`, "}"+end, seen)
		case of.Kind() == reflect.Struct:
			if slices.Contains(seen, of) {
				return
			}
			for f := range of.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				switch {
				case name == "" && f.Anonymous:
					each(f.Type, open, end, append(seen, of))
				case name != "":
					each(f.Type, open+`{"`+name+`":`, "}"+end, append(seen, of))
				}
			}
		}
	}
	each(reflect.TypeFor[v1.Pod](), "", "", nil)
	if places < 20 {
		t.Errorf("%d places, want at least 20", places)
	}
}

func TestWhatIsNoAmountMayLookLikeOne(t *testing.T) {
	doc := `{"metadata":{"annotations":{"a":"` + endless + `"}},"spec":{"nodeName":"` + endless + `","unknown":{"memory":"` + endless + `"}}}`
	if err := CheckJSON([]byte(doc), reflect.TypeFor[v1.Pod]()); err != nil {
		t.Error(err)
	}
}

func TestHostileDocumentsAreWalkedBriefly(t *testing.T) {
	many := `{"spec":{"overhead":{` + strings.Repeat(`"x":"`+endless+`",`, 10_000) + `"y":"1"}}}`
	err := CheckJSON([]byte(many), reflect.TypeFor[v1.Pod]())
	if err == nil || strings.Count(err.Error(), "\n") != maxProblems-1 {
		t.Errorf("%d lines for ten thousand wrong amounts, want %d", strings.Count(err.Error(), "\n")+1, maxProblems)
	}
	deep := strings.Repeat("[", 1<<20)
	if err := CheckJSON([]byte(deep), reflect.TypeFor[v1.Pod]()); err == nil || err.Error() != "is nested more than 10000 deep" {
		t.Errorf("a million brackets: %v", err)
	}
	for _, doc := range []string{`{"spec":`, `{"spec":]`, ``, `{"a" 1}`} {
		if err := CheckJSON([]byte(doc), reflect.TypeFor[v1.Pod]()); err != nil {
			t.Errorf("%q: %v, want that left to the decoder", doc, err)
		}
	}
}

// 350,000 volumes in a manifest of 1 MiB took 90 MiB for a moment.
func TestAListThatIsTooLongIsRefused(t *testing.T) {
	long := `{"spec":{"volumes":[` + strings.Repeat("{},", maxItems) + `{}]}}`
	if err := CheckJSON([]byte(long), reflect.TypeFor[v1.Pod]()); err == nil || err.Error() != "spec.volumes: has more than 20000 items" {
		t.Errorf("%v", err)
	}
}
