package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/evictd/evictd/sdk/schema"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// A misdeed is the wrong behavior of a plugin, by call. A nil field means correct behavior.
type misdeed struct {
	before   func() // it is served
	describe func() error
	observe  func(context.Context, *eviction.ObserveReply) error
	measure  func(emit func(eviction.Measurement)) error
	rank     func(context.Context, []eviction.Ranked) error
}

// named are all misdeeds by the name of the plugin. A rival may have one of them, after a dash.
// "good" and other names do nothing wrong, except those that the code below checks for.
var named = map[string]misdeed{
	"rubbish": {before: func() { fmt.Println("hello, I am not a plugin") }},
	"exits":   {before: func() { fmt.Fprintln(os.Stderr, "no reason to live"); os.Exit(3) }},
	"silent":  {before: forever},
	"megabytes": {before: func() {
		line := strings.Repeat("all work and no play makes a dull plugin ", 4)
		for range 20_000 {
			fmt.Fprintln(os.Stderr, line)
		}
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 3<<20))
	}},
	"bad-log-record":  {before: func() { fmt.Fprintln(os.Stderr, `{"@level": 7, "@message": ["not", "text"]}`) }},
	"ignores-sigterm": {before: func() { signal.Ignore(syscall.SIGTERM) }},
	"leaves-child":    {before: leaveChild},
	"escapes": {before: func() {
		if child, _ := escape(); child != nil {
			fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
		}
	}},
	"closes-stdout":   {before: func() { _ = os.Stdout.Close(); forever() }},
	"foreign-address": {before: func() { fmt.Println("1|1|tcp|example.com:80|grpc|"); forever() }},
	"net-rpc":         {before: func() { shakeHands("netrpc|") }},
	"dead-socket":     {before: func() { shakeHands("grpc|") }},
	"deaf":            {before: deaf},

	"nests-directories": {before: func() { nest(); forever() }},
	"makes-files":       {before: func() { makeFiles(1_000_000); forever() }},
	"forks-twice":       {before: forkTwice},
	"marks":             {before: mark},
	// The host is tested with these two with AutoMTLS and without.
	"bad-certificate":     {before: func() { shakeHands("grpc|" + strings.Repeat("QUFB", 20)) }},
	"unasked-certificate": {before: func() { shakeHands("grpc|" + strings.Repeat("QUFB", 20)) }},

	"hangs-in-describe":   {describe: func() error { forever(); return nil }},
	"refuses-host":        {describe: func() error { return errors.New("needs a host with feature \"time-travel\"") }},
	"crashes-in-describe": {describe: func() error { os.Exit(4); return nil }},

	"leaks-descriptors": neighbor(leakDescriptors),
	"floods-stderr":     neighbor(func() { once.Do(func() { go flood(os.Stderr) }) }),
	"floods-stdout":     neighbor(func() { once.Do(func() { go flood(os.Stdout) }) }),
	"eats-memory":       neighbor(eatMemory),
	"spins": neighbor(func() {
		once.Do(func() {
			for range 8 {
				go spin()
			}
		})
	}),
	"forks":             neighbor(fork),
	"stops-itself":      neighbor(func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }),
	"floods-pings":      neighbor(func() { once.Do(func() { go ping(-1) }) }),
	"pings":             neighbor(func() { ping(1000) }),
	"makes-files-later": neighbor(func() { makeFiles(10_000) }),
	"prints":            neighbor(func() { fmt.Println("printed from a handler") }),

	"hangs-in-observe":   {observe: func(ctx context.Context, _ *eviction.ObserveReply) error { return hang(ctx) }},
	"crashes-in-observe": {observe: func(context.Context, *eviction.ObserveReply) error { return crash() }},
	"observes-rubbish": {observe: func(_ context.Context, r *eviction.ObserveReply) error {
		r.Observations = append(r.Observations, eviction.Observation{Signal: eviction.PIDAvailable}, r.Observations[0])
		r.Observations[0].Capacity = -1
		return nil
	}},
	"attacks": {observe: func(_ context.Context, r *eviction.ObserveReply) error {
		r.Observations[0].Components = attack()
		return nil
	}},
	"returns-100-megabytes": {observe: func(_ context.Context, r *eviction.ObserveReply) error {
		r.Observations[0].Components = append(r.Observations[0].Components, eviction.Component{Name: strings.Repeat("x", 100<<20)})
		return nil
	}},

	"measures-foreign": {measure: func(emit func(eviction.Measurement)) error {
		emit(eviction.Measurement{UID: "never-sent", State: eviction.Measured})
		return nil
	}},

	"ranks-foreign": {rank: func(_ context.Context, ranked []eviction.Ranked) error {
		ranked[len(ranked)-1].UID = "never-sent"
		return nil
	}},
	"ranks-twice": {rank: func(_ context.Context, ranked []eviction.Ranked) error {
		ranked[len(ranked)-1] = ranked[0]
		return nil
	}},
	"crashes-in-rank": {rank: func(context.Context, []eviction.Ranked) error { return crash() }},
	"hangs-in-rank":   {rank: func(ctx context.Context, _ []eviction.Ranked) error { return hang(ctx) }},
	"slow-in-rank": {rank: func(context.Context, []eviction.Ranked) error {
		fmt.Fprintln(os.Stderr, "ranking begins")
		time.Sleep(700 * time.Millisecond)
		return nil
	}},
}

// neighbor returns a misdeed that serves correctly, but starts a nuisance in Observe.
func neighbor(nuisance func()) misdeed {
	return misdeed{observe: func(context.Context, *eviction.ObserveReply) error { nuisance(); return nil }}
}

// hang never returns, even after the call was cancelled.
func hang(ctx context.Context) error {
	<-ctx.Done()
	forever()
	return nil
}

func crash() error {
	var nothing *faulty
	return errors.New(nothing.name)
}

// serveNamed serves with the misdeed of the given name.
func serveNamed(name string) {
	if before := named[name].before; before != nil {
		before()
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

// children are the main functions of processes that the program starts of itself.
var children = map[string]func(){"child": forever, "middle": beMiddle, "orphan": beOrphan}

// forever sleeps. It is not select{}, which the runtime reports as a deadlock if there is only
// one goroutine.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// leaveChild starts a child that outlives this process unless the process group is killed. It
// logs the PID.
func leaveChild() {
	child := exec.Command("/proc/self/exe", "child")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		panic(err)
	}
	fmt.Fprintf(os.Stderr, "child %d\n", child.Process.Pid)
}

// shakeHands prints a handshake with a socket that does not exist.
func shakeHands(protocolAndCertificate string) {
	fmt.Printf("1|1|unix|%s/x|%s\n", os.Getenv(plugin.EnvUnixSocketDir), protocolAndCertificate)
	forever()
}

// deaf listens but never accepts.
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
	bare := strings.TrimPrefix(name, "rival-")
	f := &faulty{misdeed: named[bare], name: bare, signal: signalOf(name).Signal}
	p := eviction.Plugin{
		Name: name, Version: "1.0.0", Signals: []eviction.SignalSpec{signalOf(name)},
		Configurer: f, Observer: f, Measurer: f, Ranker: f, Reclaimer: f,
	}
	if strings.HasPrefix(name, "rival") {
		// The built-in plugin keeps these; rivals compete only for the others.
		p.Observer, p.Measurer, p.Reclaimer = nil, nil, nil
	}
	if describe := named[name].describe; describe != nil {
		p.CheckHost = func(eviction.Host) error { return describe() }
	}
	if name == "follows" { // its signal has the name that is its configuration
		p.SignalsFor = func(config []byte) ([]eviction.SignalSpec, error) {
			if strings.Contains(string(config), "refuse") {
				return nil, errors.New("config.signal: no such signal")
			}
			if err := schema.Check([]byte(`{"type": "string"}`), config); err != nil {
				return nil, err
			}
			spec := signalOf(strings.Trim(string(config), `"`))
			f.signal = spec.Signal
			return []eviction.SignalSpec{spec}, nil
		}
	}
	if document, ok := schemas[name]; ok {
		p.Configurer = schema.Configurer([]byte(document), f)
		p.Description, p.Vendor, p.Licence = "knows \x1b[31mred", "Acme", "MIT"
	}
	if name == "problems" {
		p.Configurer = configurer(func(context.Context, eviction.ConfigureRequest) error { return problems })
	}
	if name == "invalid" {
		p.Signals = append(p.Signals, eviction.SignalSpec{Signal: "unqualified"})
	}
	return p
}

// schemas are those of the plugins with a schema.
var schemas = map[string]string{
	"schema":         `{"properties": {"count": {"type": "integer", "maximum": 100}}, "additionalProperties": false}`,
	"schema-invalid": `{"type": "nubmer"}`,
}

// problems are those of a plugin that lies about its configuration: more than a person reads, with texts that would
// affect a terminal or pass for lines of the log, and with fields that no file has.
var problems = func() eviction.FieldErrors {
	all := eviction.FieldErrors{
		{Path: []string{"\x1b[2J", "0", "a\nb"}, Text: "1: want \x1b[31mred\nlevel=ERROR msg=fine"},
		{Text: ""},
		{Path: slices.Repeat([]string{strings.Repeat("deep", 1000)}, 1000), Text: strings.Repeat("long ", 10_000)},
	}
	for i := range 10_000 {
		all = append(all, eviction.FieldError{Path: []string{"x", strconv.Itoa(i)}, Text: "unknown field"})
	}
	return all
}()

// faulty implements the capabilities. Its observations contain the last configuration.
type faulty struct {
	misdeed

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
	reply := eviction.ObserveReply{Observations: []eviction.Observation{{
		Signal: f.signal, State: eviction.Observed, Available: 1, Capacity: 2,
		Components: []eviction.Component{{Name: f.config}, {Name: fmt.Sprint(os.Environ())}},
	}}}
	if f.observe != nil {
		err := f.observe(ctx, &reply)
		return reply, err
	}
	return reply, nil
}

func (f *faulty) Measure(_ context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	for i := range req.Pods {
		emit(eviction.Measurement{UID: req.Pods[i].UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: f.signal, Value: int64(i)}}})
	}
	if f.measure != nil {
		return f.measure(emit)
	}
	return nil
}

func (f *faulty) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	ranked := make([]eviction.Ranked, 0, len(req.Candidates))
	for i := range req.Candidates {
		ranked = append(ranked, eviction.Ranked{UID: req.Candidates[i].Pod.UID, Reason: f.name})
	}
	if f.rank != nil {
		return ranked, f.rank(ctx, ranked)
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
