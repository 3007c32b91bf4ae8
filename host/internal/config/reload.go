package config

import (
	"fmt"
	"reflect"
	"strings"
)

// CheckReload reports why b cannot take the place of a while evictd runs. Then
// nothing of b is to be applied.
func CheckReload(a, b Config) error {
	changed := changed(a, b)
	if len(changed) == 0 {
		return nil
	}
	return fmt.Errorf("%s changed, which needs a restart; nothing was applied", strings.Join(changed, ", "))
}

// changed returns the fields in which b differs from a and that cannot change while
// evictd runs: other parts hold what they name open, locked or listened on.
func changed(a, b Config) []string {
	var changed []string
	for _, f := range tables[reflect.TypeFor[Config]()] {
		from, to := f.in(reflect.ValueOf(a)), f.in(reflect.ValueOf(b))
		empty := f.typ.Kind() == reflect.Map && from.Len()+to.Len() == 0
		if f.fixed && !empty && !reflect.DeepEqual(from.Interface(), to.Interface()) {
			changed = append(changed, f.name)
		}
	}
	return changed
}
