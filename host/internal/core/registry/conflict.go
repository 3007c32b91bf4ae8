package registry

import (
	"errors"
	"fmt"
	"slices"
)

// Conflict returns why i cannot serve beside the running plugins that precede it by name, nil if it
// can: they define a custom signal differently.
func (r *Registry) Conflict(i *Instance) error {
	var errs []error
	for _, other := range r.instances {
		if other.Name >= i.Name || r.isShadow(i.Name) || r.isShadow(other.Name) {
			continue
		}
		for _, s := range other.Plugin.Signals {
			for _, t := range i.Plugin.Signals {
				if s.Signal == t.Signal && s.Definition != nil && t.Definition != nil && *s.Definition != *t.Definition {
					errs = append(errs, fmt.Errorf("plugins %q and %q define %s differently, want the same unit, format, resource and condition", other.Name, i.Name, s.Signal))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (r *Registry) isShadow(name string) bool {
	return slices.ContainsFunc(r.plugins, func(p Plugin) bool { return p.Name == name && p.Shadow })
}
