package config

import (
	"fmt"
	"slices"
	"strings"
)

// A layer is one of the files that a configuration is made of.
type layer struct {
	file string
	// keys are the fields that the file gives, with the keys by which it does.
	keys map[string]string
	// badGrace are the signals whose grace period was reported and taken out, or
	// all are.
	badGrace    []string
	badAllGrace bool
}

// layers are the files, each beaten by the next.
type layers []*layer

// dropUnpaired forgets soft thresholds whose grace period was reported already:
// to say that it is missing would send the reader the wrong way.
func (ls layers) dropUnpaired(c *Config) {
	for _, l := range ls {
		if l.badAllGrace {
			c.EvictionSoft = nil
		}
		for _, signal := range l.badGrace {
			delete(c.EvictionSoft, signal)
		}
	}
}

// blame puts in front of err the file whose field it is about, and the key that
// this file has for it.
func (ls layers) blame(err error) error {
	field := topField(err)
	l := ls.giver(field)
	if l == nil && field == "evictionSoftGracePeriod" {
		// It is missing, and missed by who gave the threshold.
		if l = ls.giver("evictionSoft"); l != nil {
			return fmt.Errorf("%s: %w", l.file, err)
		}
	}
	switch {
	case l != nil:
		return l.named(field, err)
	case len(ls) > 0:
		return fmt.Errorf("%s: %w", ls[len(ls)-1].file, err)
	default:
		return err
	}
}

// giver returns the layer that has the last word on field, nil if none has one.
func (ls layers) giver(field string) *layer {
	for _, l := range slices.Backward(ls) {
		if l.keys[field] != "" {
			return l
		}
	}
	return nil
}

// named is err with the file, and with the file's key for field.
func (l *layer) named(field string, err error) error {
	key := l.keys[field]
	if key == "" || key == field {
		return fmt.Errorf("%s: %w", l.file, err)
	}
	return fmt.Errorf("%s: %s%s", l.file, key, strings.TrimPrefix(err.Error(), field))
}
