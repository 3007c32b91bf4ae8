package pid_test

import (
	"os"
	"testing"

	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/sdk/sdktest"
)

func TestItPassesTheConformanceSuite(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("reads this machine: run make test")
	}
	sdktest.Run(t, pid.New())
}
