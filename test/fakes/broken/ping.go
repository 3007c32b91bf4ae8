package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/hashicorp/go-plugin"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// pinged is the connection of a plugin that can write its own frames between those of its server.
var pinged pingConn

type pingConn struct {
	net.Conn
	mu sync.Mutex
}

func (c *pingConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Conn.Write(b)
}

type pingListener struct{ net.Listener }

func (l pingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	pinged.Conn = c
	return &pinged, nil
}

// servePings serves without TLS and without go-plugin.
func servePings(p eviction.Plugin) {
	socket := os.Getenv(plugin.EnvUnixSocketDir) + "/x"
	l, err := net.Listen("unix", socket)
	if err != nil {
		panic(err)
	}
	server := wire.NewGRPCServer(nil)
	wire.Register(server, p)
	fmt.Printf("1|%d|unix|%s|grpc|\n", wire.ProtocolMajor, socket)
	if err := server.Serve(pingListener{l}); err != nil {
		panic(err)
	}
	forever()
}

// ping sends n acknowledgements of pings that were never sent; a negative n means for ever.
func ping(n int) {
	const acknowledged = 1
	one := append([]byte{0, 0, 8, 6, acknowledged, 0, 0, 0, 0}, make([]byte, 8)...)
	for ; n != 0; n-- {
		if _, err := pinged.Write(bytes.Repeat(one, 10)); err != nil {
			return
		}
		if n > 0 {
			n = max(1, n-9)
		}
	}
}
