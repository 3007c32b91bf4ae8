package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bench is shared by all parts.
type bench struct {
	// name begins with leftoverPrefix; dir is a directory of that name, memory one on a
	// filesystem in memory.
	name, dir, memory string
	programs          programs
	memTotal          int64

	sizes       []int
	idlePods    int
	roundBudget time.Duration
	idle, quiet time.Duration
	starts      int
	crossings   int
}

// memoryDir is on a filesystem in memory.
const memoryDir = "/dev/shm"

// parts are the measurements by name, in their order.
var parts = []struct {
	name string
	run  func(context.Context, *bench) (*part, error)
}{
	{"roundtrips", roundTrips},
	{"start", starts},
	{"idle", idle},
	{"modes", modes},
	{"quiet", quiet},
	{"crossing", crossings},
	{"fills", fills},
}

func main() {
	runIfHog()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	b := &bench{name: leftoverPrefix + fmt.Sprint(os.Getpid()), sizes: []int{110, 500, 1000}, idlePods: 500}
	bin := flag.String("bin", "", "measure evictd and plugins/* in this directory, where make build puts them (default: build them anew)")
	jsonFile := flag.String("json", "", "also write the figures to this file")
	markdown := flag.String("markdown", "", "also write the figures to this document, with a picture beside it")
	only := flag.String("only", "", "comma-separated parts to run: roundtrips, start, idle, modes, quiet, crossing, fills (default: all)")
	flag.DurationVar(&b.roundBudget, "round-trips", 2*time.Second, "time for each call at each number of pods")
	flag.DurationVar(&b.idle, "idle", 30*time.Second, "how long to look at idle processes")
	flag.DurationVar(&b.quiet, "quiet", 20*time.Second, "how long to look at passes every 100 ms")
	flag.IntVar(&b.starts, "starts", 10, "how often to start evictd")
	flag.IntVar(&b.crossings, "crossings", 40, "how often to cross a threshold")
	flag.Parse()
	if os.Geteuid() != 0 {
		return errors.New("real processes and cgroups need root: run this as root")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return b.run(ctx, *bin, *only, *jsonFile, *markdown)
}

func (b *bench) run(ctx context.Context, bin, only, jsonFile, markdown string) (err error) {
	if err := sweep(ctx); err != nil {
		return fmt.Errorf("remove what a former run left behind: %w", err)
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	b.memTotal = field(meminfo, "MemTotal:") << 10
	b.dir = filepath.Join(os.TempDir(), b.name)
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	b.memory = filepath.Join(memoryDir, b.name)
	if err := os.Mkdir(b.memory, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.memory)) }()
	if b.programs, err = getPrograms(ctx, b.dir, bin); err != nil {
		return err
	}
	machine := fmt.Sprintf("%d CPUs, %s, %s", runtime.NumCPU(), kernel(), runtime.Version())
	fmt.Printf("evictd's benchmarks: %s. Trust medians and ratios more than times.\n", machine)
	var done []*part
	for _, p := range parts {
		if only != "" && !strings.Contains(","+only+",", ","+p.name+",") {
			continue
		}
		table, err := p.run(ctx, b)
		if err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted: %w", err)
			}
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := table.print(os.Stdout); err != nil {
			return err
		}
		done = append(done, table)
	}
	guests, err := guestParts(bin)
	if err != nil {
		return err
	}
	done = append(done, guests...)
	if markdown != "" {
		err = document(markdown, machine, done)
	}
	if jsonFile != "" {
		err = errors.Join(err, save(jsonFile, done))
	}
	return err
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown kernel"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}
