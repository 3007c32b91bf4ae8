package describe

import (
	"reflect"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

type able struct {
	eviction.Configurer
	eviction.Observer
	eviction.Measurer
	eviction.Watcher
	eviction.Ranker
	eviction.Reclaimer
	eviction.Meter

	call int
}

// Two processes of a plugin have other calls in the same fields.
func TestTheCallsOfTwoDescriptionsMayDiffer(t *testing.T) {
	var a, b eviction.Plugin
	was, is := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	for i := range was.NumField() {
		if was.Field(i).Kind() != reflect.Interface {
			continue
		}
		was.Field(i).Set(reflect.ValueOf(&able{call: 1}))
		if name := was.Type().Field(i).Name; Same(&a, &b) == nil {
			t.Errorf("a plugin without %s is the same", name)
		}
		is.Field(i).Set(reflect.ValueOf(&able{call: 2}))
		if err := Same(&a, &b); err != nil {
			t.Error(err)
		}
	}
}
