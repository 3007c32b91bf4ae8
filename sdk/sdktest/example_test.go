package sdktest_test

import (
	"testing"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// newPlugin returns the plugin that main gives to sdk.Serve, in a function of its own so that
// the test can have it too.
func newPlugin() sdk.Plugin {
	return sdk.Plugin{
		Name:    "as-kubelet",
		Version: "1.0.0",
		Signals: sdk.Signals(eviction.MemoryAvailable),
		Ranker:  sdk.RankBy(rank.For(eviction.MemoryAvailable)),
	}
}

// In a test file of the plugin:
//
//	func TestPluginKeepsTheContract(t *testing.T) {
//		sdktest.Run(t, newPlugin())
//	}
func ExampleRun() {
	TestPluginKeepsTheContract := func(t *testing.T) {
		sdktest.Run(t, newPlugin())
	}
	_ = TestPluginKeepsTheContract
}

// A plugin in any language, with a configuration and with its reclaim steps.
func ExampleRunBinary() {
	type config struct {
		Path string `json:"path"`
	}
	TestBinaryKeepsTheContract := func(t *testing.T) {
		sdktest.RunBinary(t, "./acme-disk",
			sdktest.Config(config{Path: t.TempDir()}),
			sdktest.Reclaim(),
		)
	}
	_ = TestBinaryKeepsTheContract
}
