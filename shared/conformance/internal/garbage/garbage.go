// Package garbage checks how a plugin takes messages that no host sends.
package garbage

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/reclaim"
	"github.com/evictd/evictd/shared/wire"
)

// Group sends messages that no host sends. Each call must end, with an error if no decoder
// can read the message, and the process must stay alive.
var Group = check.Group{Name: "garbage", Checks: append(garbageChecks(), []check.Check{
	{Name: "empty-messages", RPC: "(all)", Input: "a message without any field", Expect: "an answer or a refusal", Run: emptyMessages},
	{Name: "large-message", RPC: "Describe", Input: "a message of 7 MiB, which is below the limit of 8", Expect: "an answer", Run: Large},
	{Name: "oversized-message", RPC: "(all)", Input: "messages of more than 8 MiB", Expect: "an error, and the next call is answered", Run: oversizedMessage},
}...)}

func garbageChecks() []check.Check {
	var checks []check.Check
	for _, c := range check.RPCs {
		checks = append(checks, check.Check{
			Name: "garbage-" + strings.ToLower(c.Name), RPC: c.Name,
			Input:  "messages that are cut off; and bytes that some decoders take for one: a field with the number 0, text that is not UTF-8",
			Expect: "an error for what is cut off, an error or an answer for the rest, and the next call is answered",
			Run:    func(ctx context.Context, t *check.Target) error { return garbage(ctx, t, c) },
		})
	}
	return checks
}

// broken are messages that no decoder can read.
var broken = map[string]check.Message{
	"a field without its value":  {0x0a},
	"a length beyond the end":    {0x0a, 0xff, 0xff, 0x01, 'x'},
	"a number that does not end": bytes.Repeat([]byte{0xff}, 40),
}

// strange are messages that some decoders refuse and other widely used ones read in part: C++ and
// its derivatives stop at a field with the number 0, JavaScript replaces bytes that are not UTF-8.
func strange(c check.RPC) map[string]check.Message {
	return map[string]check.Message{
		"a field with the number 0": {0x00, 0x01},
		"a message, then zeros":     append(check.Message{}.Text(1000, "x"), make([]byte, 64)...),
		"the end of no group":       {1<<3 | 4},
		"a text that is not UTF-8":  check.Message{}.Bytes(c.Text, []byte("\xff\xfe")),
	}
}

func garbage(ctx context.Context, t *check.Target, c check.RPC) error {
	if !c.Offered(&t.Plugin) {
		return check.NotApplicable("it does not offer the call")
	}
	if c.Forbidden(t) {
		return check.NotApplicable(reclaim.Forbidden)
	}
	for what, in := range broken {
		// Unlike below, a Watch must end with an error too: allow a busy machine the full limit.
		err := t.Within(ctx, c.Limit, func(ctx context.Context) error { return c.Call(ctx, t, in) })
		switch {
		case err == nil:
			return fmt.Errorf("%s (%x): an answer as if it were a message", what, clipped(in))
		case t.Lost(err):
			return fmt.Errorf("%s (%x): %w", what, clipped(in), err)
		}
	}
	for what, in := range strange(c) {
		if err := answer(ctx, t, c, in); t.Lost(err) {
			return fmt.Errorf("%s (%x): %w", what, clipped(in), err)
		}
	}
	if err := t.Describe(ctx); err != nil || c.Name != "Configure" {
		return err
	}
	return t.Configure(ctx) // a strange message may have been taken for a configuration
}

func clipped(in []byte) []byte { return in[:min(len(in), 16)] }

func emptyMessages(ctx context.Context, t *check.Target) error {
	for _, c := range slices.Concat(check.RPCs[2:], check.RPCs[:2]) { // Configure at the end
		if !c.Offered(&t.Plugin) || c.Forbidden(t) {
			continue
		}
		if err := check.Answered(answer(ctx, t, c, nil)); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return t.Configure(ctx)
}

// Large sends a large message that is below the limit.
func Large(ctx context.Context, t *check.Target) error {
	_, err := t.Call(ctx, "Describe", t.Host().Bytes(1000, make([]byte, 7<<20)))
	return err
}

func oversizedMessage(ctx context.Context, t *check.Target) error {
	in := check.Message{}.Bytes(1000, make([]byte, wire.MaxMessageBytes+1))
	for _, c := range check.RPCs {
		if !c.Offered(&t.Plugin) || slices.Contains([]string{"Configure", "Watch", "Reclaim"}, c.Name) {
			continue
		}
		err := answer(ctx, t, c, in)
		if err == nil {
			return check.Noted(c.Name + " took it")
		}
		if t.Ended(0) != "" {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return t.Describe(ctx)
}

// answer makes any call with raw bytes. A Watch that stays open counts as an answer.
func answer(ctx context.Context, t *check.Target, c check.RPC, in check.Message) error {
	return t.Within(ctx, c.Limit, func(ctx context.Context) error {
		if c.Name != "Watch" {
			return c.Call(ctx, t, in)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer time.AfterFunc(200*time.Millisecond, cancel).Stop()
		err := c.Call(ctx, t, in)
		if ctx.Err() != nil {
			return nil // it was open until we ended it
		}
		return err
	})
}
