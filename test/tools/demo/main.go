// Command demo shows evictd at work on a real container under real memory
// pressure: three pods, one of which takes too much, and the eviction of
// exactly that one, timed from outside.
//
// It is not a test suite: it runs one scenario and checks the result. It removes
// everything that it starts or creates, however it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

func main() {
	crossing.RunIfChild()
	os.Exit(run())
}

func run() int {
	var o options
	flag.StringVar(&o.evictd, "evictd", "bin/evictd", "the evictd binary")
	flag.StringVar(&o.plugins, "plugins", "bin/plugins", "directory with the built-in plugins")
	flag.StringVar(&o.custom, "plugin", "", "one more plugin, for example bin/oldest, which then says who goes first")
	flag.StringVar(&o.config, "config", "", "file with that plugin's own configuration, YAML or JSON: what stands under plugins.NAME.config of evictd's")
	flag.StringVar(&o.pods, "pods", "", "file with the pods, in place of test/tools/demo/pods.yaml; one of them is the hog")
	flag.BoolVar(&o.keep, "keep", false, "evict nobody: leave evictd, containerd and the pods running until Ctrl-C, to try the plugin on")
	flag.BoolVar(&o.verbose, "v", false, "show evictd's whole log")
	flag.Parse()

	// SIGPIPE too: `make demo | head` must not leave containers behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer stop()
	verdict, err := play(ctx, o)
	var left *stack.LeftBehindError // takes precedence over all other errors, even after Ctrl-C
	switch {
	// Check ctx, not err: calls that Ctrl-C interrupts return various errors.
	case ctx.Err() != nil && !errors.As(err, &left):
		fmt.Fprintln(os.Stderr, "demo: interrupted, everything is cleaned up")
		return 130
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	fmt.Println("demo:", verdict)
	return 0
}

// play starts a stack, runs the story and removes the stack. It returns the errors of all three
// steps.
func play(ctx context.Context, o options) (verdict string, err error) {
	if err := stack.Preflight(); err != nil {
		return "", err
	}
	if err := o.check(); err != nil {
		return "", err
	}
	if err := stack.AdoptOrphans(); err != nil {
		return "", err
	}
	if err := stack.Install(ctx, os.Stdout); err != nil {
		return "", err
	}
	show := newScreen(os.Stdout)
	show.line("stage", "starting a private containerd")
	s, err := stack.Start(ctx, stack.Options{Name: "evictd-demo"})
	if err != nil {
		return "", err
	}
	defer func() { //nolint:contextcheck // cleaning up must work after Ctrl-C
		show.line("stage", "removing everything")
		if closeErr := s.Close(); closeErr != nil {
			verdict, err = "", errors.Join(err, closeErr)
		}
	}()
	return (&story{options: o, stack: s, show: show}).play(ctx)
}
