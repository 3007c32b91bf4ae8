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
)

// bench is shared by all parts.
type bench struct {
	// name begins with leftoverPrefix; dir is a directory of that name, memory one on a
	// filesystem in memory.
	name, dir, memory string
	// programs are those that are measured now, of sets: the build's, and a former build's if there is one to compare with.
	programs programs
	sets     []programs
	memTotal int64

	sizes       []int
	idlePods    int
	roundBudget time.Duration
	idle, quiet time.Duration
	starts      int
	crossings   int
	// runs counts the runs of each part.
	runs int
}

// mostLoad is the load of the machine above which times say little.
const mostLoad = 1.0

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
	{"text", texts},
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
	former := flag.String("against", "", "run each part with the programs in this directory in turn, and compare")
	bin := flag.String("bin", "bin", "measure the programs in this directory, where make build puts them")
	markdown := flag.String("markdown", "", "also write the figures to this document, with a picture beside it")
	only := flag.String("only", "", "comma-separated parts to run: roundtrips, start, idle, modes, quiet, crossing, fills, text (default: all)")
	flag.DurationVar(&b.roundBudget, "round-trips", 2*time.Second, "time for each call at each number of pods")
	flag.DurationVar(&b.idle, "idle", 30*time.Second, "how long to look at idle processes")
	flag.DurationVar(&b.quiet, "quiet", 20*time.Second, "how long to look at passes every 100 ms")
	flag.IntVar(&b.starts, "starts", 10, "how often to start evictd")
	flag.IntVar(&b.crossings, "crossings", 40, "how often to cross a threshold")
	flag.IntVar(&b.runs, "runs", 1, "how often to run each part; the figures are medians")
	busy := flag.Bool("busy", false, fmt.Sprintf("run on a machine with a load above %.1f, too", mostLoad))
	flag.Parse()
	if os.Geteuid() != 0 {
		return errors.New("real processes and cgroups need root: run this as root")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := checkLoad(*busy); err != nil {
		return err
	}
	return b.run(ctx, *bin, *former, *only, *markdown)
}

// checkLoad prints the load of the last minute and returns an error if it is too high, unless busy.
func checkLoad(busy bool) error {
	var load float64
	text, err := os.ReadFile("/proc/loadavg")
	if _, bad := fmt.Sscan(string(text), &load); err != nil || bad != nil {
		return fmt.Errorf("/proc/loadavg: %w", errors.Join(err, bad))
	}
	fmt.Printf("The machine's load is %.2f.\n", load)
	if load > mostLoad && !busy {
		return fmt.Errorf("the load of the last minute is %.2f, want at most %.1f: end other work and wait a minute, or give -busy", load, mostLoad)
	}
	return nil
}

func (b *bench) run(ctx context.Context, bin, former, only, markdown string) (err error) {
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
	for _, from := range append([]string{bin}, strings.Fields(former)...) {
		set, err := getPrograms(filepath.Join(b.dir, fmt.Sprint(len(b.sets))), from)
		if err != nil {
			return err
		}
		b.sets = append(b.sets, set)
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // every Linux has it
	machine := fmt.Sprintf("%d CPUs, Linux %s, %s, medians of %d runs", runtime.NumCPU(), strings.TrimSpace(string(kernel)), runtime.Version(), b.runs)
	fmt.Printf("evictd's benchmarks: %s. Trust medians and ratios more than times.\n", machine)
	var done []*part
	for _, p := range parts {
		if only != "" && !strings.Contains(","+only+",", ","+p.name+",") {
			continue
		}
		table, err := b.measure(ctx, p.run)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, errors.Join(ctx.Err(), err))
		}
		table.name = p.name
		if err := table.print(os.Stdout); err != nil {
			return err
		}
		done = append(done, table)
	}
	guests, err := guestParts(bin)
	if err != nil || markdown == "" {
		return err
	}
	return document(markdown, machine, append(done, guests...))
}

// measure runs a part with each set of programs in turn, as often as asked, and returns the medians.
func (b *bench) measure(ctx context.Context, run func(context.Context, *bench) (*part, error)) (*part, error) {
	tables := make([][]*part, len(b.sets))
	for range b.runs {
		for i, set := range b.sets {
			b.programs = set
			table, err := run(ctx, b)
			if err != nil {
				return nil, err
			}
			tables[i] = append(tables[i], table)
		}
	}
	own := medians(tables[0])
	if len(tables) > 1 {
		own.against(medians(tables[1]))
	}
	return own, nil
}
