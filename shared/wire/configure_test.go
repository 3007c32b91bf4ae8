package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// refuses returns a plugin that refuses each configuration with err.
func refuses(err error) eviction.Plugin {
	return (&fake{configure: func(context.Context, eviction.ConfigureRequest) error { return err }}).plugin()
}

func TestProblemsOfAConfigurationKeepTheirFields(t *testing.T) {
	field := eviction.FieldErrors{{Path: []string{"paths", "0"}, Text: "b: want /"}}
	long := strings.Repeat("é", 2000)
	for name, c := range map[string]struct {
		err  error
		want eviction.FieldErrors
	}{
		"a field":        {field, field},
		"wrapped":        {fmt.Errorf("configure: %w", field), field},
		"beside another": {errors.Join(errors.New("no disk"), field), append(eviction.FieldErrors{{Text: "no disk"}}, field...)},
		"too many":       {make(eviction.FieldErrors, 1000), make(eviction.FieldErrors, maxProblems)},
		"deep":           {eviction.FieldErrors{{Path: make([]string, 100), Text: "a"}}, eviction.FieldErrors{{Path: make([]string, maxSteps), Text: "a"}}},
		"long and not UTF-8": {
			eviction.FieldErrors{{Path: []string{long}, Text: "\xff" + long}},
			eviction.FieldErrors{{Path: []string{long[:maxKeyBytes-3] + "..."}, Text: "\uFFFD" + long[:maxTextBytes-6] + "..."}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := connect(t, refuses(c.err)).Configurer.Configure(within(t, 5*time.Second), eviction.ConfigureRequest{})
			got, _ := errors.AsType[eviction.FieldErrors](err)
			if diff := cmp.Diff(c.want, got); diff != "" || !errors.Is(err, eviction.ErrRefused) {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// An older host takes each answer for a yes.
func TestAHostThatDoesNotReadProblemsGetsARefusal(t *testing.T) {
	s := NewGRPCServer(nil)
	Register(s, refuses(eviction.FieldErrors{{Path: []string{"a", "b"}, Text: "unknown field"}}))
	w, err := NewClient(start(t, s)).rpc.Configure(within(t, 5*time.Second), &pluginv1.ConfigureRequest{})
	if err = CallError(t.Context(), err); !errors.Is(err, eviction.ErrRefused) || !strings.HasSuffix(err.Error(), ": a.b: unknown field") {
		t.Errorf("%v, %v", w, err)
	}
}
