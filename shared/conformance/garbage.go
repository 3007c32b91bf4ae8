package conformance

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

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
	for _, rpc := range []string{"Describe", "Configure", "Observe", "Measure", "Watch", "Rank", "Reclaim"} {
		checks = append(checks, check{
			name: "garbage-" + strings.ToLower(rpc), rpc: rpc,
			input:  "messages that are cut off; and bytes that some decoders take for one: a field with the number 0, text that is not UTF-8",
			expect: "an error for what is cut off, an error or an answer for the rest, and the next call is answered",
			run:    func(ctx context.Context, t *target) error { return garbage(ctx, t, rpc) },
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

// doubtful are bytes that some decoders refuse and others, which are in wide use,
// read as far as they can: C++ and what is made of it ends at a field with the number
// 0, JavaScript puts something else in the place of bytes that are not UTF-8.
func doubtful(rpc string) map[string]message {
	return map[string]message{
		"a field with the number 0": {0x00, 0x01},
		"a message, then zeros":     append(message{}.text(1000, "x"), make([]byte, 64)...),
		"the end of no group":       {1<<3 | 4},
		"a text that is not UTF-8":  message{}.bytes(textField(rpc), []byte("\xff\xfe")),
	}
}

func garbage(ctx context.Context, t *target, rpc string) error {
	if !t.offered(rpc) {
		return notApplicable("it does not offer the call")
	}
	if t.destructive(rpc) {
		return notApplicable(withoutReclaim)
	}
	for what, in := range broken {
		err := t.pokeInTime(ctx, rpc, in)
		switch {
		case err == nil && rpc == "Watch":
			return fmt.Errorf("%s (%x): the stream was opened", what, clipped(in))
		case err == nil:
			return fmt.Errorf("%s (%x): an answer as if it were a message", what, clipped(in))
		case t.lost(err):
			return fmt.Errorf("%s (%x): %w", what, clipped(in), err)
		}
	}
	for what, in := range doubtful(rpc) {
		if err := t.pokeInTime(ctx, rpc, in); t.lost(err) {
			return fmt.Errorf("%s (%x): %w", what, clipped(in), err)
		}
	}
	if err := t.describe(ctx); err != nil || rpc != "Configure" {
		return err
	}
	return t.configure(ctx) // one of the doubtful ones may have been a configuration
}

// textField is the number of a text in the request of a call.
func textField(rpc string) protowire.Number {
	switch rpc {
	case "Observe":
		return 3
	case "Measure":
		return 4
	case "Rank", "Reclaim":
		return 2
	default: // in Configure and Watch it is in a message inside, where it fails to be one
		return 1
	}
}

func clipped(in []byte) []byte { return in[:min(len(in), 16)] }

func emptyMessages(ctx context.Context, t *target) error {
	for _, rpc := range []string{"Describe", "Observe", "Measure", "Watch", "Rank", "Reclaim", "Configure"} {
		if !t.offered(rpc) || t.destructive(rpc) {
			continue
		}
		err := t.options.within(ctx, callTime(rpc), func(ctx context.Context) error { return t.poke(ctx, rpc, nil) })
		if err := answered(err); err != nil {
			return fmt.Errorf("%s: %w", rpc, err)
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
	for _, rpc := range []string{"Describe", "Observe", "Measure", "Rank"} {
		if !t.offered(rpc) {
			continue
		}
		err := t.poke(ctx, rpc, in)
		if err == nil {
			return noted(rpc + " took it")
		}
		if t.proc != nil && t.proc.ended() || status.Code(err) == codes.Unavailable {
			return fmt.Errorf("%s: %w", rpc, err)
		}
	}
	return t.describe(ctx)
}
