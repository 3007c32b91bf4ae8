package input

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
)

func decode(text string) (string, []error, error) {
	doc, twice, err := YAML([]byte(text), "a map")
	return string(doc), twice, err
}

func TestDocuments(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1":                              `{"a":1}`,
		"---\n# nothing\n---\na: 1\n":       `{"a":1}`,
		"{\"a\":\t1}":                       `{"a":1}`,
		"a: &x [1, 2]\nb: *x\n":             `{"a":[1,2],"b":[1,2]}`,
		"a: &x {b: 1}\nc: {<<: *x, d: 2}\n": `{"a":{"b":1},"c":{"b":1,"d":2}}`,
		"a: yes\n":                          `{"a":true}`,
		".inf: 1\na: |\n  text":             `{".inf":1,"a":"text\n"}`,
		"a: \"1 & 2 * 3\"\n":                `{"a":"1 \u0026 2 * 3"}`,
	} {
		if got, twice, err := decode(text); got != want || len(twice) > 0 || err != nil {
			t.Errorf("%q: %s, %v, %v, want %s", text, got, twice, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                  "is empty",
		"# nothing\n---\n":  "is empty",
		"- a\n":             "is not a mapping",
		"word":              "is not a mapping",
		"null":              "is not a mapping",
		"a: 1\n]\n":         "did not find expected key",
		"a: 1\n...\nb: 1\n": "did not find expected <document start>",
		"a: 1\n---\nb: 1\n": "has more than one YAML document, want one",
		"a: {b: .nan}":      "a.b: NaN, want a finite number",
		"a: &x [*x]":        "has an alias of what contains it",
		"a: [":              "did not find expected node content",
		"a: [*x, &y 1]":     "unknown anchor 'x' referenced",
	} {
		if got, _, err := decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestKeysGivenTwiceAreReported(t *testing.T) {
	doc, twice, err := decode("a: {b: 1,\n b: 2}\na: 3\n" + strings.Repeat("c: 1\n", 100))
	if err != nil || doc != `{"a":3,"c":1}` {
		t.Errorf("%s, %v", doc, err)
	}
	if got := fmt.Sprint(twice); len(twice) != maxTwice || !strings.HasPrefix(got, "[a.b: given twice, again on line 2 a: given twice, again on line 3 c: given twice, again on line 5") {
		t.Errorf("%s", got)
	}
	// Beside an empty document lines were counted from its end.
	if _, twice, err := decode("---\n# nothing\n---\na: 1\na: 2\n"); err != nil || fmt.Sprint(twice) != "[a: given twice, again on line 5]" {
		t.Errorf("%s, %v", twice, err)
	}
}

// allocated returns the bytes that the program has ever allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	runtime.GC() // counts what is in the caches of threads, too
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// An unprivileged author had the host take gigabytes, or die of them at each start.
func TestAliasesDoNotFillMemory(t *testing.T) {
	nested := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		nested += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	for name, text := range map[string]string{
		"a long text many times": "a: &a " + strings.Repeat("x", 200_000) + "\nb: [" + strings.Repeat("*a, ", 10_000) + "]\n",
		"lists of lists":         nested,
		"many small ones":        "a: &a {b: {c: {d: 1}}}\nb: [" + strings.Repeat("*a, ", 200_000) + "]\n",
		"merged keys":            "a: &a {k: " + strings.Repeat("x", 100_000) + "}\nb: [" + strings.Repeat("{<<: *a}, ", 10_000) + "]\n",
	} {
		before := allocated()
		_, _, err := decode(text)
		if used := allocated() - before; used > 256<<20 {
			t.Errorf("%s: %d MiB for %d bytes", name, used>>20, len(text))
		}
		if err == nil || err.Error() != "has aliases that expand to more than 4 MiB" {
			t.Errorf("%s: %v", name, err)
		}
	}
	few := "a: &a " + strings.Repeat("x", 10_000) + "\nb: [" + strings.Repeat("*a, ", 100) + "]\n"
	if doc, _, err := decode(few); err != nil || len(doc) < 1_000_000 {
		t.Errorf("a megabyte of aliases: %d bytes, %v", len(doc), err)
	}
	if _, _, err := decode("a: &a {b: *a}\n"); err == nil || strings.Contains(err.Error(), "is not a mapping") {
		t.Errorf("one that contains itself: %v", err)
	}
}
