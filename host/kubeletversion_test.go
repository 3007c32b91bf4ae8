package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestTheKubeletsVersionIsFollowed(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", nil)
	type answer struct {
		version string
		err     error
	}
	for name, c := range map[string]struct {
		known   string
		answers []answer // the last one stays
		refuse  int      // settings refused first
		after   time.Duration
		set     []string
		asked   int
	}{
		"an upgrade":                {known: "v1.36.3", answers: []answer{{"v1.36.3", nil}, {"v1.37.2", nil}}, after: time.Hour, set: []string{"v1.37.2"}, asked: 6},
		"unreachable at start":      {answers: []answer{{err: errors.New("no route")}, {err: errors.New("no route")}, {"v1.35.8", nil}}, after: time.Minute, set: []string{"v1.35.8"}, asked: 3},
		"no permission":             {answers: []answer{{err: forbidden}}, after: time.Hour, asked: 6},
		"an outage changes none":    {known: "v1.37.2", answers: []answer{{err: errors.New("no route")}}, after: time.Hour, asked: 6},
		"a plugin refuses at first": {known: "v1.36.3", answers: []answer{{"v1.37.2", nil}}, refuse: 1, after: time.Hour, set: []string{"v1.37.2", "v1.37.2"}, asked: 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.after)
				defer cancel()
				var set []string
				asked := 0
				followKubelet(ctx, func(context.Context) (string, error) {
					a := c.answers[min(asked, len(c.answers)-1)]
					asked++
					return a.version, a.err
				}, c.known, func(_ context.Context, version string) error {
					set = append(set, version)
					if len(set) <= c.refuse {
						return errors.New("not now")
					}
					return nil
				}, slog.New(slog.DiscardHandler))
				if !slices.Equal(set, c.set) || asked > c.asked || asked < c.asked-1 {
					t.Errorf("set %q in %d requests, want %q in %d", set, asked, c.set, c.asked)
				}
			})
		})
	}
}
