package quantity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxDepth is how deep a document may nest, as in the decoders.
	maxDepth = 10_000
	// maxProblems bounds what a document of rubbish can make us say, and maxShown
	// how much of a wrong text an error repeats.
	maxProblems = 10
	maxShown    = 80
)

var errDeep = fmt.Errorf("is nested more than %d deep", maxDepth)

// CheckJSON reports which amounts in the JSON document doc must not be decoded
// into a value of type t: it finds the places at which t has a quantity, however
// often the document gives them. A document that is no JSON is for the decoder to
// refuse.
func CheckJSON(doc []byte, t reflect.Type) error {
	w := walk{tokens: json.NewDecoder(bytes.NewReader(doc))}
	w.tokens.UseNumber()
	if err := w.value(t); err != nil && json.Valid(doc) || errors.Is(err, errDeep) {
		w.problems = append(w.problems, err) // The rest was not looked at.
	}
	return errors.Join(w.problems...)
}

// walk goes once through a document, token by token: a key that is given twice is
// decoded twice.
type walk struct {
	tokens   *json.Decoder
	path     []string
	problems []error
}

// value takes the next value, which is to be decoded into a t. A nil t is a place
// that nothing is decoded into.
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
		if len(w.path) >= maxDepth {
			return errDeep
		}
		if token == '{' {
			return w.object(t)
		}
		return w.array(t)
	case string:
		w.amount(t, token)
	case json.Number:
		w.amount(t, token.String())
	}
	return nil
}

func (w *walk) object(t reflect.Type) error {
	for w.tokens.More() {
		token, err := w.tokens.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string) // The decoder takes nothing else here.
		if err := w.below("."+shown(key), at(t, key)); err != nil {
			return err
		}
	}
	_, err := w.tokens.Token()
	return err
}

func (w *walk) array(t reflect.Type) error {
	var of reflect.Type
	if t != nil && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) {
		of = t.Elem()
	}
	for i := 0; w.tokens.More(); i++ {
		if err := w.below("["+strconv.Itoa(i)+"]", of); err != nil {
			return err
		}
	}
	_, err := w.tokens.Token()
	return err
}

func (w *walk) below(step string, t reflect.Type) error {
	w.path = append(w.path, step)
	err := w.value(t)
	w.path = w.path[:len(w.path)-1]
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
		w.problems = append(w.problems, fmt.Errorf("%s%q: %w", path, shown(text), err))
	}
}

func shown(text string) string {
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + "..."
	}
	return text
}

// at returns what key is in a t, nil if nothing.
func at(t reflect.Type, key string) reflect.Type {
	switch {
	case t == nil:
		return nil
	case t.Kind() == reflect.Map:
		return t.Elem()
	case t.Kind() == reflect.Struct:
		return field(t, key)
	default:
		return nil
	}
}

// field finds the field of a struct that encoding/json has under key, also in
// embedded structs.
func field(t reflect.Type, key string) reflect.Type {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				if found := field(embedded, key); found != nil {
					return found
				}
			}
		case name == key, name == "" && f.Name == key:
			return f.Type
		}
	}
	return nil
}
