package input

import (
	"errors"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/evictd/evictd/host/internal/ground/printable"
)

// Lines has the lines of a document's fields by their JSON pointers.
type Lines map[string]int

// FieldLines returns the lines of the fields in data below the top-level field named under, or of all for "".
// data must be accepted by YAML. Fields merged from an alias have none.
func FieldLines(data []byte, under string) Lines {
	root, _, err := onlyDocument(data)
	if err != nil || root == nil {
		return nil
	}
	lines := Lines{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if key, err := keyString(root.Content[i]); err == nil && (under == "" || key == under) {
			lines.add(Pointer(key), root.Content[i].Line, root.Content[i+1], maxPlaceDepth)
		}
	}
	return lines
}

// maxPlaceDepth bounds how deep fields have a line of their own: the pointers of n levels cost the square of n.
const maxPlaceDepth = 32

func (l Lines) add(at string, line int, n *yamlv3.Node, depth int) {
	l[at] = line
	if depth == 0 {
		return
	}
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	for i, c := range n.Content {
		if n.Kind == yamlv3.SequenceNode {
			l.add(at+Pointer(strconv.Itoa(i)), c.Line, c, depth-1)
		} else if key, err := keyString(c); i%2 == 0 && err == nil {
			l.add(at+Pointer(key), c.Line, n.Content[i+1], depth-1)
		}
	}
}

// Pointer returns the JSON pointer with those steps.
func Pointer(steps ...string) string {
	var b strings.Builder
	for _, step := range steps {
		b.WriteString("/" + pointerEscapes.Replace(step))
	}
	return b.String()
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// A Place identifies a part of a document in errors.
type Place struct {
	// File names the document, Field the part in it: both may be "".
	File, Field string
	// Lines are those of the document, in which Pointer leads to the part. Both may be empty.
	Lines   Lines
	Pointer string
}

// Line returns the line of the field of the part to which steps lead, or else of the closest one around it; 0 if
// there is none.
func (p Place) Line(steps []string) int {
	for n := len(steps); n >= 0; n-- {
		if line := p.Lines[p.Pointer+Pointer(steps[:n]...)]; line > 0 {
			return line
		}
	}
	return 0
}

// Error returns text as an error about the field of the part to which steps lead. It names the file, the line and
// the field.
func (p Place) Error(steps []string, text string) error {
	at := p.File
	if line := p.Line(steps); line > 0 {
		at += ":" + strconv.Itoa(line)
	}
	field := []string{p.Field}
	for _, step := range steps {
		switch _, err := strconv.ParseUint(step, 10, 31); {
		case err == nil:
			step = "[" + step + "]"
		case step == "" || strings.ContainsAny(step, `.[]/"`):
			step = printable.Key(step)
		default:
			step = "." + step
		}
		field = append(field, step)
	}
	for _, part := range []string{strings.TrimPrefix(strings.Join(field, ""), "."), at} {
		if part != "" {
			text = part + ": " + text
		}
	}
	return errors.New(text)
}
