package eviction

import "strings"

// FieldErrors are what is wrong with a configuration, by field. Configure may return them: the host adds
// the lines of its file.
type FieldErrors []FieldError

// A FieldError is what is wrong with one field of a configuration.
type FieldError struct {
	// Path has the steps from the top of the configuration to the field: names, and indexes of lists.
	Path []string
	// Text says what is wrong and what is right, such as "unknown field, want \"limit\"".
	Text string
}

// Error implements error.
func (e FieldErrors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.Text
		if len(f.Path) > 0 {
			lines[i] = strings.Join(f.Path, ".") + ": " + f.Text
		}
	}
	return strings.Join(lines, "\n")
}

// Is reports them as ErrRefused.
func (FieldErrors) Is(target error) bool { return target == ErrRefused }
