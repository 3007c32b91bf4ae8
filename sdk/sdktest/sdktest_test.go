package sdktest_test

import (
	"context"
	"testing"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/shared/eviction"
)

func TestExampleKeepsTheContract(t *testing.T) { sdktest.Run(t, newPlugin()) }

func TestOptionsReachThePlugin(t *testing.T) {
	type config struct {
		Factor int `json:"factor"`
	}
	p := newPlugin()
	seen := make(chan eviction.NodeFacts, 1)
	p.Configurer = sdk.Configure(func(_ context.Context, node eviction.NodeFacts, c config) error {
		if c.Factor == 7 {
			select {
			case seen <- node:
			default:
			}
		}
		return nil
	})
	sdktest.Run(t, p, sdktest.Config(config{Factor: 7}), sdktest.Node(eviction.NodeFacts{NodeName: "n1"}), sdktest.Skip("rank-500"))
	if node := <-seen; node.NodeName != "n1" {
		t.Errorf("node %+v, want the one given", node)
	}
}
