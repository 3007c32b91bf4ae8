package client

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
)

// A refusal has what a plugin finds wrong with its configuration, by field.
type refusal struct{ error }

func (refusal) Is(target error) bool { return target == eviction.ErrRefused }

// maxFieldErrors bounds the lines of a refusal.
const maxFieldErrors = 20

// Located returns a line for each error: the file and its line, the field, and the plugin's text, in the order of the file.
// A field that the file does not have is at the line of the closest one around it.
func Located(fields eviction.FieldErrors, at input.Place) error {
	slices.SortFunc(fields, func(a, b eviction.FieldError) int {
		return cmp.Or(at.Line(a.Path)-at.Line(b.Path), slices.Compare(a.Path, b.Path), strings.Compare(a.Text, b.Text))
	})
	var errs []error
	for _, f := range slices.CompactFunc(fields, func(a, b eviction.FieldError) bool {
		return slices.Equal(a.Path, b.Path) && a.Text == b.Text
	}) {
		if len(errs) == maxFieldErrors {
			errs = append(errs, errors.New("and more"))
			break
		}
		errs = append(errs, at.Error(f.Path, cmp.Or(f.Text, "refused without a text")))
	}
	return printable.ClipAll(errs, len(errs))
}
