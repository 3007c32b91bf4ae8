package policy

import (
	"errors"
	"fmt"

	"github.com/evictd/evictd/shared/eviction"
)

// An Assigned returns the plugin that is in charge of one capability of a signal, ""
// if none is assigned.
type Assigned func(s eviction.Signal, c eviction.Capability) string

// Split returns what of the assignments gives one filesystem to two plugins, nil if
// nothing does in one of the layouts.
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
					break // what comes after it is compared with it in its turn
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
