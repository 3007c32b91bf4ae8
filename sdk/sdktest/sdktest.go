// Package sdktest checks in a Go test that a plugin keeps the contract of package eviction. It
// makes the checks of `evictctl plugins verify` as subtests.
//
// It does not judge whether the plugin ranks wisely or reads the right figures;
// the plugin's own tests must do that.
package sdktest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/conformance"
	"github.com/evictd/evictd/shared/eviction"
)

// An Option modifies the checks.
type Option func(*testing.T, *conformance.Options)

// Config sets the plugin's configuration, which is marshaled to JSON. Use json.RawMessage for a
// document.
func Config(config any) Option {
	return func(t *testing.T, o *conformance.Options) {
		t.Helper()
		raw, err := json.Marshal(config)
		if err != nil {
			t.Fatalf("sdktest: config: %v", err)
		}
		o.Config = raw
	}
}

// Node sets the facts of the node that the plugin receives, for example a RootDir with files
// made for the test. The default is this machine.
func Node(facts eviction.NodeFacts) Option {
	return func(_ *testing.T, o *conformance.Options) { o.Node = &facts }
}

// Reclaim also runs the plugin's reclaim steps, which really free resources of this machine.
// Without it they are not checked.
func Reclaim() Option {
	return func(_ *testing.T, o *conformance.Options) { o.Reclaim = true }
}

// Skip omits the named checks. Explain in a comment why the plugin may fail them.
func Skip(names ...string) Option {
	return func(_ *testing.T, o *conformance.Options) { o.Skip = append(o.Skip, names...) }
}

// Environment adds variables, each as NAME=value, to the few with which a plugin is started. It
// affects only RunBinary.
func Environment(variables ...string) Option {
	return func(_ *testing.T, o *conformance.Options) { o.Environment = append(o.Environment, variables...) }
}

// Run checks p, served in this process as the host would see it: each check is a subtest.
// Methods of p are called concurrently, so run the test with -race. Checks of the process are
// made only by RunBinary.
func Run(t *testing.T, p sdk.Plugin, options ...Option) {
	t.Helper()
	check(t, options, func(ctx context.Context, o conformance.Options) (conformance.Report, error) {
		return conformance.Value(ctx, p, o)
	})
}

// RunBinary checks an executable, in any language, started as the host starts it: each check is
// a subtest. The test need not run as root.
func RunBinary(t *testing.T, path string, options ...Option) {
	t.Helper()
	check(t, options, func(ctx context.Context, o conformance.Options) (conformance.Report, error) {
		return conformance.Binary(ctx, path, o)
	})
}

func check(t *testing.T, options []Option, run func(context.Context, conformance.Options) (conformance.Report, error)) {
	t.Helper()
	var o conformance.Options
	for _, set := range options {
		set(t, &o)
	}
	report, err := run(t.Context(), o)
	if err != nil {
		t.Fatalf("sdktest: %v", err)
	}
	for i := range report.Checks {
		c := &report.Checks[i]
		t.Run(c.Name, func(t *testing.T) { tell(t, c) })
	}
}

// tell ends a subtest with the result of its check.
func tell(t *testing.T, c *conformance.Check) {
	t.Helper()
	switch c.Result {
	case conformance.Failed:
		t.Error(c.String())
	case conformance.Skipped:
		if !c.Inapplicable {
			t.Skip(c.Seen)
		}
		t.Log(c.Seen)
	case conformance.Note:
		t.Log(c.Seen)
	case conformance.Passed:
	}
}
