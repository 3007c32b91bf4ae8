package launch

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
)

const (
	// mostControlFrames bounds the frames without content that a plugin may send within a
	// second: pings, settings, windows. gRPC's own take a hundred.
	mostControlFrames = 5000
	// mostFrames bounds those of all kinds. The largest answers have some thousands.
	mostFrames = 50_000

	frameHeader  = 9
	frameData    = 0
	frameHeaders = 1
)

// A frameCounter reads along a stream of HTTP/2 frames and refuses one that floods:
// each frame costs the host as much as it costs the plugin, and gRPC as a client has
// no limit for them.
type frameCounter struct {
	since        time.Time
	control, all int

	header [frameHeader]byte
	have   int // of header
	skip   int // of the frame's payload
}

// read takes what was read. It returns an error when there are too many frames.
func (f *frameCounter) read(b []byte, now time.Time) error {
	if now.Sub(f.since) >= time.Second {
		f.since, f.control, f.all = now, 0, 0
	}
	for len(b) > 0 {
		if f.skip > 0 {
			n := min(f.skip, len(b))
			b, f.skip = b[n:], f.skip-n
			continue
		}
		n := copy(f.header[f.have:], b)
		b, f.have = b[n:], f.have+n
		if f.have < frameHeader {
			return nil
		}
		f.have, f.skip = 0, int(binary.BigEndian.Uint32(f.header[:4])>>8)
		f.all++
		if kind := f.header[3]; kind != frameHeaders && (kind != frameData || f.skip == 0) {
			f.control++
		}
	}
	switch {
	case f.control > mostControlFrames:
		return fmt.Errorf("more than %d control frames of HTTP/2 within a second", mostControlFrames)
	case f.all > mostFrames:
		return fmt.Errorf("more than %d frames of HTTP/2 within a second", mostFrames)
	}
	return nil
}

// countedConn is a connection whose frames are counted. Only one goroutine reads.
type countedConn struct {
	net.Conn

	frames  frameCounter
	tooMany func(error)
}

// Read implements net.Conn.
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if flood := c.frames.read(b[:n], time.Now()); flood != nil {
		c.tooMany(flood)
		return 0, flood
	}
	return n, err
}

// counted are credentials over connections whose frames are counted: with TLS they
// can be seen nowhere else.
type counted struct {
	credentials.TransportCredentials

	tooMany func(error)
}

// LimitFrames ends connections by security over which more frames come than gRPC has
// use for, and calls tooMany.
func LimitFrames(security credentials.TransportCredentials, tooMany func(error)) credentials.TransportCredentials {
	return &counted{TransportCredentials: security, tooMany: tooMany}
}

// ClientHandshake implements credentials.TransportCredentials.
func (c *counted) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		return nil, nil, err
	}
	return &countedConn{Conn: conn, tooMany: c.tooMany}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (c *counted) Clone() credentials.TransportCredentials {
	return LimitFrames(c.TransportCredentials.Clone(), c.tooMany)
}
