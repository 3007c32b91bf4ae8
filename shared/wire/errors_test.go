package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/eviction"
)

var sentinels = []error{
	eviction.ErrRefused, eviction.ErrUnavailable, eviction.ErrUnsupported, eviction.ErrInvalidReply,
	context.Canceled, context.DeadlineExceeded,
}

// wantOnly checks that err is want and none of the others, since the host
// decides by the first that fits.
func wantOnly(t *testing.T, err, want error) {
	t.Helper()
	for _, s := range sentinels {
		if is := errors.Is(err, s); is != errors.Is(want, s) {
			t.Errorf("got error %q: errors.Is(%q) = %v, want only %q", err, s, is, want)
		}
	}
}

// Whatever plugin code returns while its call lives, the plugin said no. An
// inner call of it that died is not the plugin's death.
func TestErrorsOfPluginCodeAreRefusals(t *testing.T) {
	for name, err := range map[string]error{
		"plain":                       errors.New("no such disk"),
		"wrapped":                     fmt.Errorf("no such disk: %w", errors.New("why")),
		"unavailable of a runtime":    status.Error(codes.Unavailable, "no such disk"),
		"unimplemented of a runtime":  status.Error(codes.Unimplemented, "no such disk"),
		"internal of a runtime":       status.Error(codes.Internal, "no such disk"),
		"status OK":                   fmt.Errorf("no such disk: %w", status.Error(codes.DataLoss, "")),
		"timeout of an inner call":    fmt.Errorf("no such disk: %w", context.DeadlineExceeded),
		"cancel of an inner call":     fmt.Errorf("no such disk: %w", context.Canceled),
		"a sentinel of the host":      fmt.Errorf("no such disk: %w", eviction.ErrUnavailable),
		"text that is not UTF-8":      errors.New("no such disk\xff\xfe"),
		"a megabyte of text":          errors.New("no such disk" + strings.Repeat("é", 1<<19)),
		"text with line breaks and %": errors.New("100%\n\tno such disk\r\nat all"),
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{
				configure: func(context.Context, eviction.ConfigureRequest) error { return err },
				observe: func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
					return eviction.ObserveReply{}, err
				},
				measure: func(context.Context, eviction.MeasureRequest, func(eviction.Measurement)) error { return err },
				watch:   func(context.Context, eviction.WatchRequest, func(eviction.Wake)) error { return err },
				rank:    func(context.Context, eviction.RankRequest) ([]eviction.Ranked, error) { return nil, err },
				reclaim: func(context.Context, eviction.ReclaimRequest, func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
					return eviction.Reclaimed{}, err
				},
			}
			for call, got := range callAll(within(t, 5*time.Second), connect(t, f.plugin())) {
				t.Run(call, func(t *testing.T) {
					wantOnly(t, got, eviction.ErrRefused)
					if !strings.Contains(got.Error(), "no such disk") {
						t.Errorf("got %.200q, want the plugin's text in it", got)
					}
					if len(got.Error()) > maxErrorBytes+100 {
						t.Errorf("the text has %d bytes", len(got.Error()))
					}
				})
			}
		})
	}
}

// callAll makes every call once and returns their errors.
func callAll(ctx context.Context, p eviction.Plugin) map[string]error {
	errs := map[string]error{
		"configure": p.Configurer.Configure(ctx, eviction.ConfigureRequest{}),
		"measure":   p.Measurer.Measure(ctx, eviction.MeasureRequest{}, func(eviction.Measurement) {}),
		"watch":     p.Watcher.Watch(ctx, eviction.WatchRequest{}, func(eviction.Wake) {}),
	}
	_, errs["observe"] = p.Observer.Observe(ctx, eviction.ObserveRequest{})
	_, errs["rank"] = p.Ranker.Rank(ctx, eviction.RankRequest{})
	_, errs["reclaim"] = p.Reclaimer.Reclaim(ctx, eviction.ReclaimRequest{}, func(eviction.Reclaimed) {})
	return errs
}

func TestHostThatIsRefused(t *testing.T) {
	p := (&fake{}).plugin()
	p.CheckHost = func(h eviction.Host) error {
		return fmt.Errorf("want a host with %q, %s has %q", "time-travel", h.Version, h.Features)
	}
	s := NewGRPCServer(nil)
	Register(s, p)
	_, err := NewClient(start(t, s)).Describe(within(t, 5*time.Second), eviction.Host{Version: "1.2", Features: []string{"a", "b"}})
	wantOnly(t, err, eviction.ErrRefused)
	if want := `want a host with "time-travel", 1.2 has ["a" "b"]`; !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q in it", err, want)
	}
}

// hangs is a plugin whose every call takes as long as it may.
func hangs() *fake {
	return &fake{
		configure: func(ctx context.Context, _ eviction.ConfigureRequest) error {
			<-ctx.Done()
			return ctx.Err()
		},
		observe: func(ctx context.Context, _ eviction.ObserveRequest) (eviction.ObserveReply, error) {
			<-ctx.Done()
			return eviction.ObserveReply{}, ctx.Err()
		},
		measure: func(ctx context.Context, _ eviction.MeasureRequest, _ func(eviction.Measurement)) error {
			<-ctx.Done()
			return ctx.Err()
		},
		watch: func(ctx context.Context, _ eviction.WatchRequest, _ func(eviction.Wake)) error {
			<-ctx.Done()
			return ctx.Err()
		},
		rank: func(ctx context.Context, _ eviction.RankRequest) ([]eviction.Ranked, error) {
			<-ctx.Done()
			return nil, errors.New("some other words for being late")
		},
		reclaim: func(ctx context.Context, _ eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
			<-ctx.Done()
			return eviction.Reclaimed{}, ctx.Err()
		},
	}
}

func TestCallerThatGivesUpGetsItsOwnError(t *testing.T) {
	p := connect(t, hangs().plugin())
	for name, want := range map[string]error{"deadline": context.DeadlineExceeded, "cancel": context.Canceled} {
		for call, run := range calls(p) {
			t.Run(name+"/"+call, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if name == "deadline" {
					ctx = within(t, 20*time.Millisecond)
				} else {
					time.AfterFunc(20*time.Millisecond, cancel)
				}
				wantOnly(t, run(ctx), want)
			})
		}
	}
}

func TestPluginThatDiesInACallIsUnavailable(t *testing.T) {
	for call := range calls(eviction.Plugin{}) {
		t.Run(call, func(t *testing.T) {
			entered := make(chan struct{})
			s := NewGRPCServer([]grpc.ServerOption{
				grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
					if !strings.HasSuffix(info.FullMethod, "/Describe") {
						close(entered)
					}
					return h(ctx, req)
				}),
				grpc.StreamInterceptor(func(srv any, st grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
					close(entered)
					return h(srv, st)
				}),
			})
			Register(s, hangs().plugin())
			client := NewClient(start(t, s))
			p, err := client.Describe(within(t, 5*time.Second), eviction.Host{})
			if err != nil {
				t.Fatal(err)
			}
			stopped := make(chan struct{})
			go func() {
				defer close(stopped)
				<-entered
				s.Stop()
			}()
			wantOnly(t, calls(p)[call](within(t, 5*time.Second)), eviction.ErrUnavailable)
			<-stopped
			wantOnly(t, calls(p)[call](within(t, 5*time.Second)), eviction.ErrUnavailable) // nobody listens
		})
	}
}

func TestConnectionClosedByTheHostIsUnavailable(t *testing.T) {
	s := NewGRPCServer(nil)
	Register(s, hangs().plugin())
	cc := start(t, s)
	p, err := NewClient(cc).Describe(within(t, 5*time.Second), eviction.Host{})
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = cc.Close() })
	_, err = p.Observer.Observe(within(t, 5*time.Second), eviction.ObserveRequest{})
	wantOnly(t, err, eviction.ErrUnavailable)
}

// calls are the calls to p by name.
func calls(p eviction.Plugin) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"configure": func(ctx context.Context) error { return p.Configurer.Configure(ctx, eviction.ConfigureRequest{}) },
		"observe": func(ctx context.Context) error {
			_, err := p.Observer.Observe(ctx, eviction.ObserveRequest{})
			return err
		},
		"measure": func(ctx context.Context) error {
			return p.Measurer.Measure(ctx, eviction.MeasureRequest{}, func(eviction.Measurement) {})
		},
		"watch": func(ctx context.Context) error {
			return p.Watcher.Watch(ctx, eviction.WatchRequest{}, func(eviction.Wake) {})
		},
		"rank": func(ctx context.Context) error {
			_, err := p.Ranker.Rank(ctx, eviction.RankRequest{})
			return err
		},
		"reclaim": func(ctx context.Context) error {
			_, err := p.Reclaimer.Reclaim(ctx, eviction.ReclaimRequest{}, func(eviction.Reclaimed) {})
			return err
		},
	}
}

func TestCapabilityThatIsNotThere(t *testing.T) {
	// Describe leaves such fields nil; a plugin may still lie, or be older.
	s := NewGRPCServer(nil)
	Register(s, eviction.Plugin{})
	r := remoteOn(start(t, s))
	p := eviction.Plugin{Configurer: r, Observer: r, Measurer: r, Watcher: r, Ranker: r, Reclaimer: r}
	for call, err := range callAll(within(t, 5*time.Second), p) {
		t.Run(call, func(t *testing.T) { wantOnly(t, err, eviction.ErrUnsupported) })
	}
}

func TestMessagesOverTheLimit(t *testing.T) {
	big := strings.Repeat("x", MaxMessageBytes)
	f := &fake{
		observe: func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
			return eviction.ObserveReply{Observations: []eviction.Observation{{Err: big}}}, nil
		},
		rank: func(_ context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
			return []eviction.Ranked{{UID: string(r.Signal)[:10]}}, nil
		},
		measure: func(_ context.Context, _ eviction.MeasureRequest, emit func(eviction.Measurement)) error {
			emit(eviction.Measurement{UID: "1", Err: big})
			return nil
		},
	}
	p := connect(t, f.plugin())
	ctx := within(t, 10*time.Second)

	_, err := p.Observer.Observe(ctx, eviction.ObserveRequest{})
	wantOnly(t, err, eviction.ErrInvalidReply)
	err = p.Measurer.Measure(ctx, eviction.MeasureRequest{Pods: []eviction.Pod{{UID: "1"}}}, func(eviction.Measurement) {})
	wantOnly(t, err, eviction.ErrInvalidReply)

	// gRPC's default limit would be 4 MiB.
	ranking, err := p.Ranker.Rank(ctx, eviction.RankRequest{Signal: eviction.Signal(big[:7<<20]), Candidates: candidates(1)})
	if err != nil || len(ranking) != 1 || ranking[0].UID != big[:10] {
		t.Errorf("Rank with 7 MiB = %v, %v, want one entry", len(ranking), err)
	}
}

// rawCodec lets a server send arbitrary bytes.
type rawCodec struct{}

func (rawCodec) Name() string                    { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }

// rawServer answers every call with the same bytes and status.
func rawServer(reply []byte, end error) *grpc.Server {
	return grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var request []byte
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		if reply != nil {
			if err := stream.SendMsg(&reply); err != nil {
				return err
			}
		}
		return end
	}))
}

func TestRepliesThatAreNotDecodable(t *testing.T) {
	for name, reply := range map[string][]byte{
		"rubbish":           []byte("Hello, world! This is not protobuf."),
		"not UTF-8":         {0x0a, 0x02, 0xff, 0xfe},
		"half of a message": {0x0a, 0x7f, 'x'},
	} {
		t.Run(name, func(t *testing.T) {
			client := NewClient(start(t, rawServer(reply, nil)))
			_, err := client.Describe(within(t, 5*time.Second), eviction.Host{})
			wantOnly(t, err, eviction.ErrInvalidReply)
		})
	}
	for name, reply := range map[string]string{
		"bad field number":        "\x00",
		"too long a number":       "\x08" + strings.Repeat("\xff", 10),
		"a group":                 "\x0b",
		"rows that are not UTF-8": "\x0a\x04\x0a\x02\xff\xfe",
		"more rows than asked":    strings.Repeat("\x0a\x00", 101),
	} {
		t.Run(name, func(t *testing.T) {
			r := remoteOn(start(t, rawServer([]byte(reply), nil)))
			_, err := r.Rank(within(t, 5*time.Second), eviction.RankRequest{Candidates: make([]eviction.Candidate, 100)})
			wantOnly(t, err, eviction.ErrInvalidReply)
			err = r.Measure(within(t, 5*time.Second), eviction.MeasureRequest{Pods: make([]eviction.Pod, 100)}, func(eviction.Measurement) {
				t.Error("an answer was made of it")
			})
			wantOnly(t, err, eviction.ErrInvalidReply)
		})
	}
	t.Run("an empty description", func(t *testing.T) {
		client := NewClient(start(t, rawServer([]byte{}, nil)))
		_, err := client.Describe(within(t, 5*time.Second), eviction.Host{})
		wantOnly(t, err, eviction.ErrInvalidReply)
		if !strings.Contains(err.Error(), "name is empty") {
			t.Errorf("got %q, want it to say what is missing", err)
		}
	})
}

// Plugins in other languages send what their libraries send.
func TestStatusCodes(t *testing.T) {
	for code, want := range map[codes.Code]error{
		codes.Canceled:           eviction.ErrUnavailable, // nobody cancelled
		codes.Unknown:            eviction.ErrRefused,     // an exception in most libraries
		codes.InvalidArgument:    eviction.ErrRefused,
		codes.DeadlineExceeded:   eviction.ErrRefused, // the deadline is far away
		codes.NotFound:           eviction.ErrRefused,
		codes.AlreadyExists:      eviction.ErrRefused,
		codes.PermissionDenied:   eviction.ErrRefused,
		codes.ResourceExhausted:  eviction.ErrInvalidReply,
		codes.FailedPrecondition: eviction.ErrRefused,
		codes.Aborted:            eviction.ErrRefused,
		codes.OutOfRange:         eviction.ErrRefused,
		codes.Unimplemented:      eviction.ErrUnsupported,
		codes.Internal:           eviction.ErrInvalidReply,
		codes.Unavailable:        eviction.ErrUnavailable,
		codes.DataLoss:           eviction.ErrInvalidReply,
		codes.Unauthenticated:    eviction.ErrRefused,
		codes.Code(77):           eviction.ErrRefused,
	} {
		t.Run(code.String(), func(t *testing.T) {
			r := remoteOn(start(t, rawServer(nil, status.Error(code, "so it is"))))
			_, err := r.Observe(within(t, 5*time.Second), eviction.ObserveRequest{})
			wantOnly(t, err, want)
			wantOnly(t, r.Watch(within(t, 5*time.Second), eviction.WatchRequest{}, func(eviction.Wake) {}), want)
			if !strings.Contains(err.Error(), "so it is") {
				t.Errorf("got %q, want the text in it", err)
			}
		})
	}
}

func TestValid(t *testing.T) {
	for _, s := range []string{"", "ok", "seven b", "eight by", "3f2a9b1c-7d4e-4f60-8a2b-000000000001", "größe", "eight bytes and größe", "ends in ö"} {
		if !valid(s) {
			t.Errorf("%q is not valid", s)
		}
		for at := range len(s) + 1 {
			if bad := s[:at] + "\xff" + s[at:]; valid(bad) {
				t.Errorf("%q is valid", bad)
			}
		}
	}
}
