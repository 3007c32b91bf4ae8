// Command broken is a plugin that does everything wrong that a plugin can.
//
// If package fault has appended a fault to the file, it is a real plugin with that fault in one
// call. The file is the only way to pass this to a plugin before its first call, however the
// host starts it.
//
// Otherwise the name by which it is started selects the fault, or the name after "posing as" at
// the end of a file that must have another name. Tests of the host link it into a plugin
// directory under such names. It then serves the contract without the SDK, which prevents most
// of these faults.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
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
	"github.com/evictd/evictd/test/fakes/broken/fault"
)

func main() {
	os.Stdout = handshake
	if len(os.Args) > 1 {
		children[os.Args[1]]()
		return
	}
	end, err := tail("/proc/self/exe")
	if err != nil {
		fmt.Fprintln(os.Stderr, "broken:", err)
		os.Exit(1)
	}
	var s fault.Fault
	if json.Unmarshal(bytes.TrimSpace(end), &s) != nil {
		_, posing, _ := strings.Cut(string(end), "\x00posing as ")
		serveNamed(cmp.Or(posing, filepath.Base(os.Args[0])))
		return
	}
	if s.Kind == fault.Wrong {
		serveWrong(s.Variant)
		return
	}
	leaveWithHost()
	b := &broken{Fault: s, before: map[eviction.Signal]eviction.Observation{}}
	if path := os.Getenv("EVICTD_PLUGIN_SOCKET"); path != "" {
		listenOn(path, b)
		return
	}
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: wire.ServerPlugins(b.plugin()),
		GRPCServer:       b.server,
	})
}

// listenOn serves b on a socket, which stays there at the end.
func listenOn(path string, b *broken) {
	aside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	_ = os.Remove(aside)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: aside, Net: "unix"})
	if err == nil {
		listener.SetUnlinkOnClose(false)
		err = errors.Join(os.Chmod(aside, 0o600), os.Rename(aside, path))
	}
	if err == nil {
		s := b.server(nil)
		wire.Register(s, b.plugin())
		err = s.Serve(listener)
	}
	fmt.Fprintln(os.Stderr, "broken:", err)
	os.Exit(1)
}

// tail reads the end of the program, where a fault may be appended.
func tail(program string) ([]byte, error) {
	file, err := os.Open(program)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(-fault.TrailerBytes, io.SeekEnd); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// server returns a server without the protocol's limits on messages sent and on the text of errors,
// as a plugin in another language may have.
func (b *broken) server(opts []grpc.ServerOption) *grpc.Server {
	s := wire.NewGRPCServer(append(opts, grpc.ChainUnaryInterceptor(b.unary)))
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

// handshake is the original standard output, which the SDK, linked in here, has moved to another
// descriptor.
var handshake = standardOutput()

func standardOutput() *os.File {
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
