package nodefs

import (
	"math"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

func readPIDs(t *testing.T, f FS) (PIDSample, error) {
	t.Helper()
	return f.ReadPIDs(naming(t, Cgroupfs))
}

func TestReadPIDs(t *testing.T) {
	for name, want := range map[string]PIDSample{
		"node-v1": {PIDMax: 32768, ThreadsMax: 192731, Running: 2500},
		"node-v2": {PIDMax: 4194304, ThreadsMax: 192731, Running: 2500},
	} {
		got, err := readPIDs(t, absolute(t, name))
		if err != nil || got != want {
			t.Errorf("%s: read %+v, %v, want %+v", name, got, err, want)
		}
	}
}

func TestAvailablePIDs(t *testing.T) {
	for name, c := range map[string]struct {
		in             PIDSample
		max, available int64
	}{
		"pid_max is smaller":             {PIDSample{PIDMax: 100, ThreadsMax: 900, Running: 40}, 100, 60},
		"threads-max is smaller":         {PIDSample{PIDMax: 900, ThreadsMax: 100, Running: 40}, 100, 60},
		"only pid_max":                   {PIDSample{PIDMax: 100, Running: 40}, 100, 60},
		"only threads-max":               {PIDSample{ThreadsMax: 100, Running: 40}, 100, 60},
		"the pods' limit is closer":      {PIDSample{PIDMax: 100, Running: 40, PodsMax: 50, PodsRunning: 30}, 50, 20},
		"pods run beyond it":             {PIDSample{PIDMax: 100, Running: 60, PodsMax: 50, PodsRunning: 55}, 50, -5},
		"others than pods fill the node": {PIDSample{PIDMax: 100, Running: 95, PodsMax: 50, PodsRunning: 30}, 100, 5},
		"more run than may":              {PIDSample{PIDMax: 100, ThreadsMax: 100, Running: 140}, 100, -40},
	} {
		t.Run(name, func(t *testing.T) {
			if c.in.Max() != c.max || c.in.Available() != c.available {
				t.Errorf("%d of %d, want %d of %d", c.in.Available(), c.in.Max(), c.available, c.max)
			}
		})
	}
}

func TestOneLimitIsEnough(t *testing.T) {
	root := t.TempDir()
	write(t, root, "proc/loadavg", "1.36 3.49 4.53 2/3518 3715089\n")
	if _, err := readPIDs(t, FS{Root: root}); err == nil || !strings.Contains(err.Error(), "pid_max") || !strings.Contains(err.Error(), "threads-max") {
		t.Errorf("error is %v, want one that names both files", err)
	}
	write(t, root, "proc/sys/kernel/threads-max", "4000\n")
	if got, err := readPIDs(t, FS{Root: root}); err != nil || got.Available() != 482 {
		t.Errorf("read %+v, %v, want 482 available", got, err)
	}
	testos.Remove(t, root+"/proc/loadavg")
	if _, err := readPIDs(t, FS{Root: root}); err == nil || !strings.Contains(err.Error(), "loadavg") {
		t.Errorf("error is %v, want one that names the file", err)
	}
}

// Pods could not fork at the limit of their cgroup, which the kubelet sets for what is
// reserved of pids, and pid.available was that of the machine.
func TestPodsAtTheLimitOfTheirCgroupHaveNoPIDs(t *testing.T) {
	for name, c := range map[string]struct {
		max, current string // "" for no such file
		want         int64
		wantErr      string
	}{
		"the limit is reached":     {"500\n", "500\n", 0, ""},
		"it is near":               {"500\n", "480\n", 20, ""},
		"it is far":                {"500000\n", "480\n", 9000, ""},
		"there is none":            {"max\n", "480\n", 9000, ""},
		"pods have no cgroup":      {"", "", 9000, ""},
		"a limit that is none":     {"many\n", "480\n", 0, "kubepods/pids.max"},
		"a counter that is broken": {"500\n", "many\n", 0, "kubepods/pids.current"},
	} {
		for _, dir := range []string{"sys/fs/cgroup/pids", "sys/fs/cgroup"} {
			t.Run(name+" "+dir, func(t *testing.T) {
				root := t.TempDir()
				write(t, root, "proc/loadavg", "0 0 0 1/1000 9\n")
				write(t, root, "proc/sys/kernel/pid_max", "10000\n")
				write(t, root, dir+"/tasks", "")
				write(t, root, dir+"/cgroup.controllers", "pids\n")
				if c.max != "" {
					write(t, root, dir+"/kubepods/pids.max", c.max)
					write(t, root, dir+"/kubepods/pids.current", c.current)
				}
				got, err := readPIDs(t, FS{Root: root})
				checkParsed(t, got.Available(), err, c.want, c.wantErr)
			})
		}
	}
}

func TestPIDGaugeReadsAgainAndAllocatesNothing(t *testing.T) {
	root := t.TempDir()
	write(t, root, "proc/loadavg", "0 0 0 1/10 9\n")
	write(t, root, "proc/sys/kernel/pid_max", "100\n")
	write(t, root, "sys/fs/cgroup/cgroup.controllers", "pids\n")
	write(t, root, "sys/fs/cgroup/kubepods/pids.max", "95\n")
	write(t, root, "sys/fs/cgroup/kubepods/pids.current", "1\n")
	g := FS{Root: root}.PIDs(naming(t, Cgroupfs))
	defer g.Close()
	var b Buffer
	for _, want := range []int64{90, 80} {
		if got, err := g.Read(&b); err != nil || got.Available() != want {
			t.Errorf("%+v, %v, want %d available", got, err, want)
		}
		write(t, root, "proc/loadavg", "0 0 0 1/20 9\n")
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = g.Read(&b) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestParseTasks(t *testing.T) {
	parseCases{
		"as the kernel writes it": {in: "1.36 3.49 4.53 2/3518 3715089\n", want: 3518},
		"wide load":               {in: "14400.01 3.49 4.53 2/3518 3715089\n", want: 3518},
		"no last pid":             {in: "1 1 1 2/7\n", want: 7},
		"three fields":            {in: "1 1 1\n", wantErr: "less than four"},
		"empty":                   {in: "", wantErr: "less than four"},
		"no slash":                {in: "1 1 1 27 8\n", wantErr: "runnable/all"},
		"nothing after it":        {in: "1 1 1 2/ 8\n", wantErr: "not a number"},
		"nothing before it":       {in: "1 1 1 /2 8\n", wantErr: "not a number"},
		"two of them":             {in: "1 1 1 2/3/4 8\n", wantErr: "runnable/all"},
		"negative":                {in: "1 1 1 2/-3 8\n", wantErr: "not a number"},
		"beyond int64":            {in: "1 1 1 2/9223372036854775808 8\n", wantErr: "too many"},
		"beyond uint64":           {in: "1 1 1 2/18446744073709551616 8\n", wantErr: "too large"},
	}.run(t, parseTasks)
}

func FuzzParseTasks(f *testing.F) {
	f.Add([]byte("1.36 3.49 4.53 2/3518 3715089\n"))
	f.Add([]byte("1 1 1 2/3/4 8\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if n, err := parseTasks(in); n < 0 || err != nil && n != 0 {
			t.Errorf("%d tasks, %v", n, err)
		}
	})
}

func TestParsePositive(t *testing.T) {
	for in, want := range map[string]int64{"1\n": 1, "9223372036854775807": math.MaxInt64} {
		if got, err := parsePositive([]byte(in)); got != want || err != nil {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
	if _, err := parsePositive([]byte("0\n")); err == nil {
		t.Error("a limit of 0 is no limit that a node can have")
	}
}
