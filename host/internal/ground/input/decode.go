package input

import (
	"reflect"

	"sigs.k8s.io/json"

	"github.com/evictd/evictd/host/internal/ground/quantity"
)

// Decode decodes a JSON document, or a part of it, into what into points to. Names of fields are
// case-sensitive. strict lists unknown fields and duplicate keys; the rest of the document is decoded
// all the same.
func Decode(doc []byte, into any) (strict []error, err error) {
	if err := quantity.CheckJSON(doc, reflect.TypeOf(into).Elem()); err != nil {
		return nil, err
	}
	return json.UnmarshalStrict(doc, into)
}
