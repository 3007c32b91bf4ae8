package paritytest

import (
	"fmt"
	"os"
	"testing"

	"github.com/evictd/evictd/host/paritytest/kubelet"
)

// theKubelet is one for all tests: there can be no second in a process.
var theKubelet *kubelet.Kubelet

func TestMain(m *testing.M) {
	var err error
	if theKubelet, err = kubelet.New(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
