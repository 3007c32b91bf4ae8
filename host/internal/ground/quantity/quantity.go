// Package quantity parses amounts such as "1Gi" from manifests, scenarios and configuration. It
// rejects texts for which the library would need minutes or megabytes.
//
// It does not decide which amounts are reasonable.
package quantity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxLength exceeds any amount: 2^63 in nanos has 28 digits.
	maxLength = 100
	// maxExponent bounds the digits of an exponent. The library computes powers of ten in full,
	// even if it then rounds them away.
	maxExponent = 3
)

// exponent matches a decimal exponent, capturing its digits without leading zeros.
var exponent = regexp.MustCompile(`[eE][-+]?0*([0-9]+)$`)

// Parse parses an amount.
func Parse(text string) (resource.Quantity, error) {
	if err := Check(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// Check returns why text must not be passed to the library, which then checks that it is an amount.
func Check(text string) error {
	text = strings.TrimSpace(text)
	if len(text) > maxLength {
		return fmt.Errorf("has %d characters, want at most %d", len(text), maxLength)
	}
	if e := exponent.FindStringSubmatch(text); e != nil && len(e[1]) > maxExponent {
		return fmt.Errorf("exponent %q is too large", e[0])
	}
	return nil
}

const (
	// maxDepth bounds the nesting of a document, like the decoders.
	maxDepth = 10_000
	// maxItems bounds a list: an item of two bytes can take 400 when decoded.
	maxItems = 20_000
	// maxProblems bounds the problems reported for a document.
	maxProblems = 10
)

var (
	errDeep = fmt.Errorf("is nested more than %d deep", maxDepth)
	errLong = fmt.Errorf("has more than %d items", maxItems)
)

// CheckJSON returns an error for amounts in the JSON document doc that must not be decoded into a
// value of type t: it checks all values where t has a quantity, including duplicate ones. The
// decoder must refuse a document that is not JSON.
func CheckJSON(doc []byte, t reflect.Type) error {
	w := walk{tokens: json.NewDecoder(bytes.NewReader(doc))}
	w.tokens.UseNumber()
	if err := w.value(t); err != nil && json.Valid(doc) || errors.Is(err, errDeep) || errors.Is(err, errLong) {
		w.problems = append(w.problems, err) // The rest was not checked.
	}
	return errors.Join(w.problems...)
}

// walk traverses a document token by token: duplicate keys are both decoded.
type walk struct {
	tokens   *json.Decoder
	path     []string
	problems []error
}

// value reads the next value, which will be decoded into a t. A nil t means that it is ignored.
func (w *walk) value(t reflect.Type) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	token, err := w.tokens.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case json.Delim:
		return w.inside(token, t)
	case string:
		w.amount(t, token)
	case json.Number:
		w.amount(t, token.String())
	}
	return nil
}

// inside reads the rest of an object or list.
func (w *walk) inside(opened json.Delim, t reflect.Type) error {
	if len(w.path) >= maxDepth {
		return errDeep
	}
	for i := 0; w.tokens.More(); i++ {
		if opened == '[' && i == maxItems {
			return fmt.Errorf("%s: %w", strings.TrimPrefix(strings.Join(w.path, ""), "."), errLong)
		}
		step, key := "["+strconv.Itoa(i)+"]", ""
		if opened == '{' {
			token, err := w.tokens.Token()
			if err != nil {
				return err
			}
			key, _ = token.(string) // The decoder allows nothing else here.
			step = fmt.Sprintf(".%.100s", key)
		}
		w.path = append(w.path, step)
		if err := w.value(at(t, opened, key)); err != nil {
			return err
		}
		w.path = w.path[:len(w.path)-1]
	}
	_, err := w.tokens.Token()
	return err
}

func (w *walk) amount(t reflect.Type, text string) {
	if t != reflect.TypeFor[resource.Quantity]() || len(w.problems) >= maxProblems {
		return
	}
	if err := Check(text); err != nil {
		path := strings.TrimPrefix(strings.Join(w.path, ""), ".")
		if path != "" {
			path += ": "
		}
		w.problems = append(w.problems, fmt.Errorf("%s%.100q: %w", path, text, err))
	}
}

// at returns the type in a t at key of an object or list; nil for none.
func at(t reflect.Type, opened json.Delim, key string) reflect.Type {
	switch {
	case t == nil:
		return nil
	case opened == '[' && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array), opened == '{' && t.Kind() == reflect.Map:
		return t.Elem()
	case opened == '{' && t.Kind() == reflect.Struct:
		return field(t, key)
	default:
		return nil
	}
}

// field returns the type of the field that encoding/json uses for key, also in embedded structs.
func field(t reflect.Type, key string) reflect.Type {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if found := at(embedded, '{', key); found != nil {
				return found
			}
		case name == key, name == "" && f.Name == key:
			return f.Type
		}
	}
	return nil
}
