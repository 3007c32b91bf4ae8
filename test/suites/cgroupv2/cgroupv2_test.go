package cgroupv2

import (
	"testing"

	"github.com/evictd/evictd/test/harness/uml"
)

// TestMemoryPluginOnVersion2 runs the tests of guest_test.go in User-Mode Linux.
func TestMemoryPluginOnVersion2(t *testing.T) {
	uml.Run(t, uml.Machine{})
}
