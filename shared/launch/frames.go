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
	// mostControlFrames is the maximum number of frames without content per second from a plugin:
	// pings, settings, windows. gRPC itself sends about a hundred.
	mostControlFrames = 5000
	// mostFrames is the maximum of all frames per second. The largest answers have some thousands.
	mostFrames = 50_000

	frameHeader  = 9
	frameData    = 0
	frameHeaders = 1
)

// A frameCounter counts the frames of an HTTP/2 stream and refuses a flood: each frame costs the
// host as much as the plugin, and gRPC clients do not limit them.
type frameCounter struct {
	since        time.Time
	control, all int

	header [frameHeader]byte
	have   int // bytes of header read so far
	skip   int // bytes of the frame's payload still to come
}

// read counts the frames in b. It returns an error if there are too many.
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

// countedConn is a connection whose frames are counted. Only one goroutine may read.
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

// counted are credentials that count the frames of their connections: TLS hides the frames elsewhere.
type counted struct {
	credentials.TransportCredentials

	tooMany func(error)
}

// LimitFrames returns credentials like security whose connections end, after a call of tooMany,
// if the peer sends more frames than gRPC can need.
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
