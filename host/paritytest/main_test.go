package paritytest

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/evictd/evictd/host/paritytest/kubelet"
)

var (
	duration    = flag.Duration("parity.duration", 2*time.Second, "for how long scenarios are compared; from 10s on the other tests are whole too")
	firstSeed   = flag.Int64("parity.seed", 1, "the first seed; 0 takes one from the clock")
	preemptions = flag.Int("parity.preemptions", 0, "how many preemptions are compared; 0 goes by the duration")
	variants    = flag.Int("parity.variants", 0, "how many scenarios each variant is compared in; 0 goes by the duration")
	directory   = flag.String("parity.dir", "", "where scenarios go that differ, instead of the directory for temporary files")
)

// theKubelet is one for all tests: there can be no second in a process.
var theKubelet *kubelet.Kubelet

func TestMain(m *testing.M) {
	flag.Parse()
	if *firstSeed == 0 {
		*firstSeed = time.Now().Unix()
	}
	*preemptions, *variants = cmp.Or(*preemptions, whole(3000, 200)), cmp.Or(*variants, whole(60, 4))
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

// whole is many in a run that has time, else few.
func whole(many, few int) int {
	if *duration >= 10*time.Second {
		return many
	}
	return few
}
