package conformance

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/shared/wire"
)

// garbageGroup sends what no host sends. A call that ends is all that is asked for,
// with an error if no decoder can read it, and a process that lives on.
var garbageGroup = group{name: "garbage", checks: append(garbageChecks(), []check{
	{
		name: "empty-messages", rpc: "(all)", input: "a message without any field",
		expect: "an answer or a refusal", run: emptyMessages,
	},
	{
		name: "large-message", rpc: "Describe", input: "a message of 7 MiB, which is below the limit of 8",
		expect: "an answer", run: largeMessage,
	},
	{
		name: "oversized-message", rpc: "(all)", input: "messages of more than 8 MiB",
		expect: "an error, and the next call is answered", run: oversizedMessage,
	},
}...)}

func garbageChecks() []check {
	var checks []check
	for _, c := range rpcs {
		checks = append(checks, check{
			name: "garbage-" + strings.ToLower(c.name), rpc: c.name,
			input:  "messages that are cut off; and bytes that some decoders take for one: a field with the number 0, text that is not UTF-8",
			expect: "an error for what is cut off, an error or an answer for the rest, and the next call is answered",
			run:    func(ctx context.Context, t *target) error { return garbage(ctx, t, c) },
		})
	}
	return checks
}

// broken are bytes that no decoder of messages can read.
var broken = map[string]message{
	"a field without its value":  {0x0a},
	"a length beyond the end":    {0x0a, 0xff, 0xff, 0x01, 'x'},
	"a number that does not end": bytes.Repeat([]byte{0xff}, 40),
}

// strange are bytes that some decoders refuse and others, which are in wide use,
// read as far as they can: C++ and what is made of it ends at a field with the number
// 0, JavaScript puts something else in the place of bytes that are not UTF-8.
func strange(c rpc) map[string]message {
	return map[string]message{
		"a field with the number 0": {0x00, 0x01},
		"a message, then zeros":     append(message{}.text(1000, "x"), make([]byte, 64)...),
		"the end of no group":       {1<<3 | 4},
		"a text that is not UTF-8":  message{}.bytes(c.text, []byte("\xff\xfe")),
	}
}

func garbage(ctx context.Context, t *target, c rpc) error {
	if !c.offered(&t.plugin) {
		return notApplicable("it does not offer the call")
	}
	if t.destructive(c) {
		return notApplicable(withoutReclaim)
	}
	for what, in := range broken {
		// Unlike a poke it waits for the error also of a Watch: a busy machine is late with it.
		err := t.run.options.within(ctx, c.limit, func(ctx context.Context) error { return c.call(ctx, t, in) })
		switch {
		case err == nil:
			return fmt.Errorf("%s (%x): an answer as if it were a message", what, clipped(in))
		case t.lost(err):
			return fmt.Errorf("%s (%x): %w", what, clipped(in), err)
		}
	}
	for what, in := range strange(c) {
		if err := t.pokeInTime(ctx, c, in); t.lost(err) {
			return fmt.Errorf("%s (%x): %w", what, clipped(in), err)
		}
	}
	if err := t.describe(ctx); err != nil || c.name != "Configure" {
		return err
	}
	return t.configure(ctx) // one of the doubtful ones may have been a configuration
}

func clipped(in []byte) []byte { return in[:min(len(in), 16)] }

func emptyMessages(ctx context.Context, t *target) error {
	for _, c := range slices.Concat(rpcs[2:], rpcs[:2]) { // Configure at the end
		if !c.offered(&t.plugin) || t.destructive(c) {
			continue
		}
		if err := answered(t.pokeInTime(ctx, c, nil)); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return t.configure(ctx)
}

func largeMessage(ctx context.Context, t *target) error {
	_, err := t.call(ctx, "Describe", message{}.text(1, hostVersion).bytes(1000, make([]byte, 7<<20)))
	return err
}

func oversizedMessage(ctx context.Context, t *target) error {
	in := message{}.bytes(1000, make([]byte, wire.MaxMessageBytes+1))
	for _, c := range rpcs {
		if !c.offered(&t.plugin) || slices.Contains([]string{"Configure", "Watch", "Reclaim"}, c.name) {
			continue
		}
		err := t.callBriefly(ctx, c, in)
		if err == nil {
			return noted(c.name + " took it")
		}
		if t.proc != nil && t.proc.ended() {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return t.describe(ctx)
}
