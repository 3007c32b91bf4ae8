package paritytest

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/evictd/evictd/host/paritytest/kubelet"
)

var (
	duration    = flag.Duration("parity.duration", 3*time.Second, "for how long scenarios are compared")
	firstSeed   = flag.Int64("parity.seed", 1, "the first seed; 0 takes one from the clock")
	preemptions = flag.Int("parity.preemptions", 3000, "how many preemptions are compared")
	variants    = flag.Int("parity.variants", 40, "how many scenarios each variant is compared in")
	directory   = flag.String("parity.dir", "", "where scenarios go that differ, instead of the directory for temporary files")
)

// theKubelet is one for all tests: there can be no second in a process.
var theKubelet *kubelet.Kubelet

func TestMain(m *testing.M) {
	flag.Parse()
	if *firstSeed == 0 {
		*firstSeed = time.Now().Unix()
	}
	if *directory == "" {
		*directory = os.TempDir()
	}
	var err error
	if theKubelet, err = kubelet.New(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
