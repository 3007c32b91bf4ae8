// Command broken is a real plugin with one fault: what goes wrong, and in which
// call, stands at the end of its own file, where package faults has written it.
// Nothing else reaches a plugin before its first call, whatever the host does to
// start it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
	"github.com/evictd/evictd/test/faults/fault"
)

func main() {
	s, err := read("/proc/self/exe")
	if err != nil {
		fmt.Fprintln(os.Stderr, "broken:", err)
		os.Exit(1)
	}
	if s.Kind == fault.Wrong {
		serveWrong(s.Variant)
		return
	}
	leaveWithHost()
	b := &broken{Fault: s, before: map[eviction.Signal]eviction.Observation{}}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: wire.ServerPlugins(b.plugin()),
		GRPCServer:       b.server,
	})
}

// read reads the fault at the end of the program.
func read(program string) (f fault.Fault, err error) {
	file, err := os.Open(program)
	if err != nil {
		return f, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(-fault.TrailerBytes, io.SeekEnd); err != nil {
		return f, err
	}
	end, err := io.ReadAll(file)
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(bytes.TrimSpace(end), &f)
}

// server is one without the protocol's limit on what it sends, as one in another
// language may be, and without the limit on the text of errors.
func (b *broken) server(opts []grpc.ServerOption) *grpc.Server {
	s := wire.NewGRPCServer(append(opts, grpc.ChainUnaryInterceptor(b.unary)))
	os.Stdout = handshake()
	limit := reflect.ValueOf(s).Elem().FieldByName("opts").FieldByName("maxSendMessageSize")
	*(*int)(unsafe.Pointer(limit.UnsafeAddr())) = math.MaxInt32
	return s
}

func (b *broken) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if b.Kind == fault.Oversized && b.Call == fault.Configure && path.Base(info.FullMethod) == "Configure" && b.strikes(fault.Configure) {
		return nil, status.Error(codes.FailedPrecondition, strings.Repeat("too much ", oversize/9))
	}
	return next(ctx, req)
}

// handshake is the standard output, which the SDK keeps from what is linked in here
// by giving it another number.
func handshake() *os.File {
	for fd := 3; fd < 32; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		target, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err == nil && flags&unix.O_ACCMODE == unix.O_WRONLY && strings.HasPrefix(target, "pipe:") {
			return os.NewFile(uintptr(fd), "handshake")
		}
	}
	return os.Stdout
}

// leaveWithHost ends the process when the host's end of the inherited pipe is
// closed.
func leaveWithHost() {
	fd, err := strconv.Atoi(os.Getenv("EVICTD_PARENT_FD"))
	if err != nil {
		return
	}
	syscall.CloseOnExec(fd)
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(uintptr(fd), "host"))
		os.Exit(0)
	}()
}
