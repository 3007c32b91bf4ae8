package sdk

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/json"

	"github.com/evictd/evictd/shared/eviction"
)

// DecodeConfig reads the plugin's configuration into a struct with json tags.
// Field names are case-sensitive. Unknown and duplicate fields are errors, all
// reported at once with their paths. Empty input leaves into as it is, so give
// it with the defaults set.
func DecodeConfig(raw []byte, into any) error {
	if len(raw) == 0 {
		return nil
	}
	strict, err := json.UnmarshalStrict(raw, into)
	if err != nil {
		strict = append(strict, err)
	}
	for i := range strict {
		strict[i] = fmt.Errorf("config: %w", strict[i])
	}
	return errors.Join(strict...)
}

// Configure returns a Configurer that decodes the plugin's configuration into a
// new T, strictly, and hands it to apply. The zero value of each field of T is
// its default. An error of apply leaves the former configuration in force, so
// apply must check first and change the plugin last.
func Configure[T any](apply func(ctx context.Context, node eviction.NodeFacts, config T) error) eviction.Configurer {
	return configurer[T](apply)
}

type configurer[T any] func(context.Context, eviction.NodeFacts, T) error

func (c configurer[T]) Configure(ctx context.Context, req eviction.ConfigureRequest) error {
	var config T
	if err := DecodeConfig(req.Config, &config); err != nil {
		return err
	}
	return c(ctx, req.Node, config)
}
