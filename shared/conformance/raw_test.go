package conformance

import (
	"context"
	"fmt"
	"math/bits"
	"path"
	"slices"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// A rawCall is a call of a proxy, as bytes.
type rawCall struct {
	ctx context.Context //nolint:containedctx // a call is its context
	in  []byte
	// send answers, forward has the sound plugin answer, by send.
	send    func([]byte)
	forward func() error
}

// A rawFault stands in for a call, in ways that package wire keeps its users
// from.
type rawFault func(*rawCall) error

func TestFaultyServersFailForTheRightReason(t *testing.T) {
	for name, f := range rawFaults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := faultOptions(f.text, f.fails)
			o.Reclaim = true
			r, err := prepared(t.Context(), o, func(ctx context.Context, r *run) { r.value(ctx, proxy(t, f)) })
			if err != nil {
				t.Fatal(err)
			}
			if err := judge(&r, f.text, f.fails...); err != nil {
				t.Error(err)
			}
		})
	}
}

// proxy serves a sound plugin with a fault in between.
func proxy(t *testing.T, f serverFault) *wire.Local {
	t.Helper()
	s := newSound()
	p := s.plugin()
	if f.watches {
		p.Watcher = s
	}
	behind, err := serveValue(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(behind.Close)
	cc, err := behind.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	client := wire.NewClient(cc)
	front := wire.ServeLocal(wire.NewGRPCServer([]grpc.ServerOption{
		grpc.UnknownServiceHandler(func(_ any, gr grpc.ServerStream) error { return f.serve(client, gr) }),
	}))
	t.Cleanup(front.Close)
	return front
}

// A serverFault is something wrong with a server. The first of fails must fail.
type serverFault struct {
	calls   map[string]rawFault
	limit   int
	watches bool
	text    string
	fails   []string
}

func (f *serverFault) serve(behind *wire.Client, gr grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(gr)
	rpc := path.Base(method)
	c := &rawCall{ctx: gr.Context(), send: func(b []byte) { _ = gr.SendMsg((*wire.Raw)(&b)) }}
	if err := gr.RecvMsg((*wire.Raw)(&c.in)); err != nil {
		return err
	}
	if f.limit != 0 && len(c.in) > f.limit {
		return status.Error(codes.ResourceExhausted, "message is too large")
	}
	c.forward = func() error { return behind.StreamRaw(c.ctx, rpc, c.in, c.send) }
	if fault := f.calls[rpc]; fault != nil {
		return fault(c)
	}
	return c.forward()
}

// answer is a fault that says the same to every request.
func answer(reply []byte) rawFault {
	return func(c *rawCall) error {
		c.send(reply)
		return nil
	}
}

// add is a fault that adds to every reply.
func add(more []byte) rawFault {
	return func(c *rawCall) error {
		send := c.send
		c.send = func(b []byte) { send(slices.Concat(b, more)) }
		return c.forward()
	}
}

func rawFaults() map[string]serverFault {
	signal := check.Message{}.Text(1, "unqualified")
	scoped := func(can eviction.Capability) check.Message { // a signal whose candidates are those of a ranking
		d := check.Message{}.Text(1, "bytes").Text(2, "BinarySI").Text(3, "acme.example/scratch").Text(4, "acme.example/Scratch").Number(6, 2)
		return check.Message{}.Text(1, "acme.example/scratch").Number(2, int64(bits.Len8(uint8(can)))).Bytes(3, d)
	}
	var version atomic.Int64
	all := map[string]serverFault{
		"a custom signal without a domain": {
			calls: map[string]rawFault{"Describe": add(check.Message{}.Bytes(6, signal))},
			text:  "unqualified", fails: []string{"describe"},
		},
		"candidates of a ranking for any host": {
			calls: map[string]rawFault{"Describe": add(check.Message{}.Bytes(6, scoped(eviction.CanRank)))},
			text:  "a host without candidate-scope", fails: []string{"describe-older-host"},
		},
		"candidates of a ranking without a ranking": {
			calls: map[string]rawFault{"Describe": add(check.Message{}.Bytes(6, scoped(eviction.CanObserve)))},
			text:  "does not rank the signal", fails: []string{"describe"},
		},
		"the unspecified capability": {
			calls: map[string]rawFault{"Describe": add(check.Message{}.Number(3, 0))},
			text:  "CAPABILITY_UNSPECIFIED", fails: []string{"describe"},
		},
		"the unspecified capability of a signal": {
			calls: map[string]rawFault{"Describe": add(check.Message{}.Bytes(6, check.Message{}.Text(1, "pid.available").Number(2, 0)))},
			text:  "CAPABILITY_UNSPECIFIED", fails: []string{"describe"},
		},
		"a description that is no message": {
			calls: map[string]rawFault{"Describe": answer([]byte{0x0a, 0xff})},
			text:  "", fails: []string{"describe"},
		},
		"another description each time": {
			calls: map[string]rawFault{"Describe": func(c *rawCall) error {
				send := c.send
				c.send = func(b []byte) { send(check.Message(b).Text(2, fmt.Sprint(version.Add(1)))) }
				return c.forward()
			}},
			text: "then", fails: []string{"describe-again", "describe-older-host", "describe-newer-host", "configure-description"},
		},
		"answers what it does not offer": {
			calls: map[string]rawFault{"Watch": answer(nil)},
			text:  "Watch", fails: []string{"absent-calls"},
		},
		"too many measurements in a message": {
			calls: map[string]rawFault{"Measure": func(c *rawCall) error {
				var all []byte
				send := c.send
				c.send = func(b []byte) { all = append(all, b...) }
				err := c.forward()
				send(all)
				return err
			}},
			text: "500 pods in one message", fails: []string{"measure-chunks"},
		},
		"reads whatever comes": {
			calls: map[string]rawFault{"Rank": func(c *rawCall) error {
				if _, err := check.Fields(c.in); err == nil {
					return c.forward()
				}
				c.send(nil)
				return nil
			}},
			text: "as if it were a message", fails: []string{"garbage-rank"},
		},
		"layout of others": {
			calls: map[string]rawFault{"Observe": add(check.Message{}.Bytes(2, nil))},
			text:  "does not own the layout", fails: []string{"observe-layout"},
		},
		"the limit of other servers": {limit: 4 << 20, text: "ResourceExhausted", fails: []string{"large-message"}},
		"UNAVAILABLE for a refusal": {
			calls: map[string]rawFault{"Observe": func(*rawCall) error { return status.Error(codes.Unavailable, "no device") }},
			text:  "no device", fails: []string{"observe", "empty-messages"},
		},
		"INTERNAL for a refusal": {
			calls: map[string]rawFault{"Configure": func(c *rawCall) error {
				if err := c.forward(); err != nil {
					return status.Error(codes.Internal, err.Error())
				}
				return nil
			}},
			text: "invalid reply", fails: []string{"configure-unknown-field", "configure-not-json"},
		},
	}
	if whole() {
		all["hangs on garbage"] = serverFault{
			calls: map[string]rawFault{"Observe": func(c *rawCall) error {
				if _, err := check.Fields(c.in); err != nil {
					<-c.ctx.Done()
				}
				return c.forward()
			}},
			text: "no answer", fails: []string{"garbage-observe"},
		}
		all["keeps the former watch"] = serverFault{
			watches: true,
			calls: map[string]rawFault{"Watch": func(c *rawCall) error {
				<-c.ctx.Done()
				return c.ctx.Err()
			}},
			text: "still open", fails: []string{"watch-replaced", "garbage-watch"},
		}
	}
	return all
}
