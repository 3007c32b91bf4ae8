// Package schema checks a plugin's configuration by a JSON Schema (2020-12), in the plugin's own process. A package of its
// own, since the validator takes memory that plugins without a schema do without. It does not replace the strict
// decoding of sdk.Configure.
package schema

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/evictd/evictd/shared/eviction"
)

// Configurer returns a Configurer that checks each configuration by the schema in document before next gets it. What the
// schema refuses does not reach next.
func Configurer(document []byte, next eviction.Configurer) eviction.Configurer {
	return configurer{document, next}
}

type configurer struct {
	document []byte
	next     eviction.Configurer
}

// Configure implements eviction.Configurer.
func (c configurer) Configure(ctx context.Context, req eviction.ConfigureRequest) error {
	if err := Check(c.document, req.Config); err != nil {
		return err
	}
	return c.next.Configure(ctx, req)
}

// location is the base of references in a schema.
const location = "schema:///"

// Check returns what is wrong with a configuration by the schema in document, as eviction.FieldErrors. No configuration counts
// as {}. It compiles the schema each time: a plugin is configured rarely, and holds no compiled schema between.
func Check(document, config []byte) error {
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{}) // No references to other documents.
	if err := c.AddResource(location, schema); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	compiled, err := c.Compile(location)
	if err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	var value any = map[string]any{}
	if len(config) > 0 {
		if value, err = jsonschema.UnmarshalJSON(bytes.NewReader(config)); err != nil {
			return eviction.FieldErrors{{Text: err.Error()}}
		}
	}
	err = compiled.Validate(value)
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		r := report{config: value, schema: schema}
		r.each(wrong)
		return r.errors()
	}
	return err
}
