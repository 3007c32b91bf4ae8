package policy

import (
	"errors"
	"fmt"

	"github.com/evictd/evictd/shared/eviction"
)

// An Assigned returns the plugin assigned to a capability of a signal, "" if there is none.
type Assigned func(s eviction.Signal, c eviction.Capability) string

// Split returns an error for assignments that give one filesystem to two plugins in one of the
// layouts, nil if there are none.
func Split(assigned Assigned, layouts ...eviction.Layout) error {
	var errs []error
	for _, layout := range layouts {
		err := split(assigned, layout)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func split(assigned Assigned, layout eviction.Layout) error {
	var errs []error
	for _, s := range eviction.BuiltinSignals() {
		for c := range eviction.AllCapabilities().Each() {
			for _, other := range layout.ServedWith(s, c) {
				if other == s {
					break // later ones are compared with it in their turn
				}
				plugin, second := assigned(s, c), assigned(other, c)
				if plugin != "" && second != "" && second != plugin {
					errs = append(errs, fmt.Errorf("assign[%q].%s is %q and assign[%q].%s is %q: with the layout %s they are one filesystem, want one plugin for both",
						other, c, second, s, c, plugin, layout))
					break
				}
			}
		}
	}
	return errors.Join(errs...)
}
