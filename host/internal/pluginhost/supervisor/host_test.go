package supervisor

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

// beHost runs a supervisor until it is killed.
func beHost(dir string) {
	s, err := New(Options{Dir: dir, SocketRoot: dir + "/.sockets", Timeouts: patientCalls, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		panic(err)
	}
	go func() {
		<-s.Started()
		_, _ = os.Stdout.WriteString("started\n")
	}()
	ctx := context.Background()
	if err := s.Run(ctx); err != nil {
		panic(err)
	}
}

func TestPluginsDieWithTheHost(t *testing.T) {
	t.Parallel()
	dir := install(t, "good", "ignores-pipe", "stopped", "ignores-sigterm")
	sockets := dir + "/.sockets"
	testos.Mkdir(t, sockets, 0o700)
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), hostDirEnv+"="+dir)
	host.Stderr = t.Output()
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.Process.Kill(); _ = host.Wait() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the host did not start: %v", err)
	}
	pids := processesOf(sockets)
	if len(pids) != 4 {
		t.Fatalf("%d plugins run, want 4", len(pids))
	}
	for _, pid := range pids {
		cmdline, _ := os.ReadFile("/proc/" + pid + "/cmdline")
		if strings.Contains(string(cmdline), "stopped") {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			suspend(t, n)
		}
	}
	if err := host.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all plugins gone", func() bool { return len(processesOf(sockets)) == 0 })

	// What the killed host left behind is swept by the next one.
	if left, _ := os.ReadDir(sockets); len(left) == 0 {
		t.Error("no socket directory is left to be swept")
	}
	next := startHost(t, dir, shortStop, func(o *Options) { o.SocketRoot = sockets })
	if left, _ := filepath.Glob(sockets + "/plugin-dir[0-9]*"); len(left) != 4 {
		t.Errorf("%d socket directories, want one per plugin: 4", len(left))
	}
	next.stop()
	if left, _ := os.ReadDir(sockets); len(left) != 0 {
		t.Errorf("%d socket directories after the end, want 0", len(left))
	}
}
