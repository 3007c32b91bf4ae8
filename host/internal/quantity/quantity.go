// Package quantity reads amounts that others have written, such as "1Gi": those
// of manifests, scenarios and configuration. It bounds what the library would
// spend minutes or megabytes on.
//
// It does not say which amounts make sense.
package quantity

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxLength is more than any amount needs: 2^63 in nanos has 28 digits.
	maxLength = 100
	// maxExponent is the number of digits that an exponent may have. The library
	// computes powers of ten in full, also those that it then rounds away.
	maxExponent = 3
)

// exponent matches a decimal exponent of any length, with its digits but leading
// zeros.
var exponent = regexp.MustCompile(`[eE][-+]?0*([0-9]+)$`)

// Parse returns the amount that text is.
func Parse(text string) (resource.Quantity, error) {
	if err := Check(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// Check reports why text must not be given to the library. It does not say
// whether text is an amount.
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
