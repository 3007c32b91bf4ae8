package printable

import (
	"fmt"
	"strings"
)

// A FieldError reports what is wrong with a field of a document.
type FieldError struct {
	// Path leads to the field: its name, then a step for each level, such as .user, [1] or that of
	// Key.
	Path []string
	Err  error
}

// Error implements error.
func (e FieldError) Error() string { return strings.Join(e.Path, "") + ": " + e.Err.Error() }

// Key returns the step of a path to the entry of a mapping.
func Key(name string) string { return fmt.Sprintf("[%q]", name) }
