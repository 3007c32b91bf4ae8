package e2e_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/evictd/evictd/test/harness/stack"
)

// Everything is mounted in a namespace that ends with the tests, so that
// nothing stays mounted even when they are killed.
func TestMain(m *testing.M) {
	stack.SweepIfGuard()
	if os.Getenv("EVICTD_TEST_E2E") != "1" {
		fmt.Println("needs root, containers and loop devices: run make e2e")
		os.Exit(m.Run())
	}
	err := stack.PrivateMounts()
	if err == nil {
		err = stack.Prepare()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
