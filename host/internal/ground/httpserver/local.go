package httpserver

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"

	"golang.org/x/net/netutil"
)

// ListenLocal listens on a unix socket for this user and root. The directory must keep other users
// from writing; a socket that a former process has left is replaced.
func ListenLocal(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// ServeLocal answers requests on a listener of ListenLocal until ctx ends, and closes it.
func ServeLocal(ctx context.Context, l *net.UnixListener, h http.Handler, log *slog.Logger) error {
	l.SetUnlinkOnClose(false) // the next one takes its inode on a full disk
	return serve(ctx, netutil.LimitListener(l, most()), h, log)
}

// Ask requests a page from the listener on a unix socket. The caller closes the response's body.
func Ask(ctx context.Context, socket, page string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://evictd"+page, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	return client.Do(req)
}
