package sdk

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"sigs.k8s.io/json"

	"github.com/evictd/evictd/shared/eviction"
)

// DecodeConfig decodes the plugin's configuration into a struct with json tags. Field names are
// case-sensitive. Unknown and duplicate fields are errors; it reports all of them at once, with
// their paths. Empty input leaves into unchanged, so pass it with the defaults set.
func DecodeConfig(raw []byte, into any) error {
	_, err := decode(raw, into)
	return err
}

// decode is DecodeConfig. whole reports whether it has set every field of into that raw has,
// even if raw has other errors.
func decode(raw []byte, into any) (whole bool, err error) {
	if len(raw) == 0 {
		return true, nil
	}
	strict, err := json.UnmarshalStrict(raw, into)
	whole = err == nil
	if !whole {
		strict = wrongFields(raw, into, err)
	}
	for i := range strict {
		strict[i] = fmt.Errorf("config: %w", strict[i])
	}
	return whole, errors.Join(strict...)
}

// wrongFields decodes each top-level field separately to find all errors, since the decoder stops
// at the first value of a wrong type. whole is that error.
func wrongFields(raw []byte, into any, whole error) []error {
	var fields map[string]stdjson.RawMessage
	if stdjson.Unmarshal(raw, &fields) != nil {
		return []error{whole}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		alone, err := stdjson.Marshal(map[string]stdjson.RawMessage{name: fields[name]})
		if err != nil {
			return []error{whole}
		}
		strict, err := json.UnmarshalStrict(alone, reflect.New(reflect.TypeOf(into).Elem()).Interface())
		if errs = append(errs, strict...); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return []error{whole}
	}
	return errs
}

// Configure returns a Configurer that strictly decodes the plugin's configuration into a new T and
// passes it to apply. The zero value of each field of T must be its default. An error of apply
// leaves the former configuration in force, so apply must check first and change the plugin last.
// Its errors are not reported together with unknown fields: for that use ConfigureChecked.
func Configure[T any](apply func(ctx context.Context, node eviction.NodeFacts, config T) error) eviction.Configurer {
	return ConfigureChecked(func(*T, eviction.NodeFacts) error { return nil }, apply)
}

// ConfigureChecked is like Configure with a check, which returns all errors in the values of the
// configuration and may fill in defaults. Its errors are reported together with unknown fields,
// so that one attempt shows all of them; apply is called only if there are none. check must
// change nothing but config.
func ConfigureChecked[T any](
	check func(config *T, node eviction.NodeFacts) error,
	apply func(ctx context.Context, node eviction.NodeFacts, config T) error,
) eviction.Configurer {
	return configurer[T]{check, apply}
}

type configurer[T any] struct {
	check func(*T, eviction.NodeFacts) error
	apply func(context.Context, eviction.NodeFacts, T) error
}

func (c configurer[T]) Configure(ctx context.Context, req eviction.ConfigureRequest) error {
	var config T
	whole, err := decode(req.Config, &config)
	if whole {
		err = errors.Join(err, c.check(&config, req.Node))
	}
	if err != nil {
		return err
	}
	return c.apply(ctx, req.Node, config)
}
