package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// faults are names, each with what happens before the plugin is served. "good" and
// names that are not here, among the nuisances or below do nothing wrong.
var faults = map[string]func(){
	"rubbish": func() { fmt.Println("hello, I am not a plugin") },
	"exits":   func() { fmt.Fprintln(os.Stderr, "no reason to live"); os.Exit(3) },
	"silent":  forever,
	"megabytes": func() {
		line := strings.Repeat("all work and no play makes a dull plugin ", 4)
		for range 20_000 {
			fmt.Fprintln(os.Stderr, line)
		}
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 3<<20))
	},
	"bad-log-record":  func() { fmt.Fprintln(os.Stderr, `{"@level": 7, "@message": ["not", "text"]}`) },
	"ignores-sigterm": func() { signal.Ignore(syscall.SIGTERM) },
	"leaves-child":    leaveChild,
	"escapes": func() {
		if child, _ := escape(); child != nil {
			fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
		}
	},
	"closes-stdout":   func() { _ = os.Stdout.Close(); forever() },
	"foreign-address": func() { fmt.Println("1|1|tcp|example.com:80|grpc|"); forever() },
	"net-rpc":         func() { shakeHands("netrpc|") },
	"dead-socket":     func() { shakeHands("grpc|") },
	"deaf":            deaf,

	"nests-directories": func() { nest(); forever() },
	"makes-files":       func() { makeFiles(1_000_000); forever() },
	"forks-twice":       forkTwice,
	"marks":             mark,
	// The host runs these two with AutoMTLS and without.
	"bad-certificate":     func() { shakeHands("grpc|" + strings.Repeat("QUFB", 20)) },
	"unasked-certificate": func() { shakeHands("grpc|" + strings.Repeat("QUFB", 20)) },
}

// serveNamed serves with the fault of that name.
func serveNamed(name string) {
	if early := faults[name]; early != nil {
		early()
	}
	if name != "ignores-pipe" {
		leaveWithHost()
	}
	p := describe(name)
	if strings.HasSuffix(name, "pings") {
		servePings(p)
	}
	plugins := wire.ServerPlugins(p)
	if name == "protocol-9" {
		plugins = map[int]plugin.PluginSet{9: plugins[wire.ProtocolMajor]}
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: plugins,
		GRPCServer:       wire.NewGRPCServer,
	})
}

// children run in the program when it has started itself.
var children = map[string]func(){"child": forever, "middle": beMiddle, "orphan": beOrphan}

// forever is not select{}: with one goroutine that is a deadlock, which the
// runtime ends.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// leaveChild starts a child that outlives this process unless somebody ends the
// process group. Its id goes to the log.
func leaveChild() {
	child := exec.Command("/proc/self/exe", "child")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
}

// shakeHands promises a socket that is not there.
func shakeHands(protocolAndCertificate string) {
	fmt.Printf("1|1|unix|%s/x|%s\n", os.Getenv(plugin.EnvUnixSocketDir), protocolAndCertificate)
	forever()
}

// deaf listens and never accepts.
func deaf() {
	if _, err := net.Listen("unix", os.Getenv(plugin.EnvUnixSocketDir)+"/x"); err != nil {
		panic(err)
	}
	shakeHands("grpc|")
}

// signalOf returns the signal of a plugin of that name: the built-in memory signal for names
// that start with "memory" or "rival", a custom one otherwise.
func signalOf(name string) eviction.SignalSpec {
	if strings.HasPrefix(name, "memory") || strings.HasPrefix(name, "rival") {
		return eviction.SignalSpec{Signal: eviction.MemoryAvailable}
	}
	own := eviction.Signal("faulty.example/" + name)
	return eviction.SignalSpec{Signal: own, Definition: &eviction.Definition{
		Unit: "things", Format: eviction.FormatDecimalSI, Resource: string(own), Condition: eviction.Condition(own),
	}}
}

func describe(name string) eviction.Plugin {
	// A rival may have the fault of another name, after a dash.
	f := &faulty{name: strings.TrimPrefix(name, "rival-"), signal: signalOf(name).Signal}
	p := eviction.Plugin{
		Name: name, Version: "1.0.0", Signals: []eviction.SignalSpec{signalOf(name)},
		Configurer: f, Observer: f, Measurer: f, Ranker: f, Reclaimer: f,
	}
	if strings.HasPrefix(name, "rival") {
		// Only what rivals fight for, so that the built-in plugin keeps the rest.
		p.Observer, p.Measurer, p.Reclaimer = nil, nil, nil
	}
	p.CheckHost = func(eviction.Host) error {
		switch name {
		case "hangs-in-describe":
			forever()
		case "refuses-host":
			return errors.New("needs a host with feature \"time-travel\"")
		case "crashes-in-describe":
			os.Exit(4)
		}
		return nil
	}
	if name == "invalid" {
		p.Signals = append(p.Signals, eviction.SignalSpec{Signal: "unqualified"})
	}
	return p
}

// faulty is the capabilities. Observations tell what the last configuration was.
type faulty struct {
	name   string
	signal eviction.Signal
	config string
}

func (f *faulty) Configure(_ context.Context, req eviction.ConfigureRequest) error {
	if f.name == "refuses-config" || strings.Contains(string(req.Config), "refuse") {
		return errors.New("config.color: unknown field, want none")
	}
	if strings.Contains(string(req.Config), "crash") {
		os.Exit(5)
	}
	f.config = string(req.Config)
	return nil
}

func (f *faulty) Observe(ctx context.Context, _ eviction.ObserveRequest) (eviction.ObserveReply, error) {
	o := eviction.Observation{
		Signal: f.signal, State: eviction.Observed, Available: 1, Capacity: 2,
		Components: []eviction.Component{{Name: f.config}, {Name: fmt.Sprint(os.Environ())}},
	}
	if nuisance := nuisances[f.name]; nuisance != nil {
		nuisance()
	}
	switch f.name {
	case "hangs-in-observe":
		<-ctx.Done()
		forever()
	case "crashes-in-observe":
		var nothing *faulty
		return eviction.ObserveReply{}, errors.New(nothing.name)
	case "stops-itself":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "observes-rubbish":
		twice := o
		o.Capacity = -1
		return eviction.ObserveReply{Observations: []eviction.Observation{o, {Signal: eviction.PIDAvailable}, twice}}, nil
	case "floods-pings":
		once.Do(func() { go ping(-1) })
	case "pings":
		ping(1000)
	case "makes-files-later":
		makeFiles(10_000)
	case "attacks":
		o.Components = attack()
	case "returns-100-megabytes":
		o.Components = append(o.Components, eviction.Component{Name: strings.Repeat("x", 100<<20)})
	case "prints":
		fmt.Println("printed from a handler")
	}
	return eviction.ObserveReply{Observations: []eviction.Observation{o}}, nil
}

func (f *faulty) Measure(_ context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	for i := range req.Pods {
		emit(eviction.Measurement{UID: req.Pods[i].UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: f.signal, Value: int64(i)}}})
	}
	switch f.name {
	case "measures-foreign":
		emit(eviction.Measurement{UID: "never-sent", State: eviction.Measured})
	case "fails-after-measuring":
		return errors.New("the runtime is away")
	}
	return nil
}

func (f *faulty) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	ranked := make([]eviction.Ranked, 0, len(req.Candidates))
	for i := range req.Candidates {
		ranked = append(ranked, eviction.Ranked{UID: req.Candidates[i].Pod.UID, Reason: f.name})
	}
	switch f.name {
	case "ranks-foreign":
		ranked[len(ranked)-1].UID = "never-sent"
	case "ranks-twice":
		ranked[len(ranked)-1] = ranked[0]
	case "crashes-in-rank":
		var nothing *faulty
		return nil, errors.New(nothing.name)
	case "hangs-in-rank":
		<-ctx.Done()
		forever()
	case "slow-in-rank":
		fmt.Fprintln(os.Stderr, "ranking begins")
		time.Sleep(700 * time.Millisecond)
	}
	return ranked, nil
}

func (f *faulty) Reclaim(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	progress(eviction.Reclaimed{Bytes: 1})
	if req.Step == "stuck" {
		<-ctx.Done()
	}
	return eviction.Reclaimed{Bytes: 2}, nil
}
