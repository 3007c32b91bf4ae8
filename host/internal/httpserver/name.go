package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// local reports whether only processes of this machine reach an address.
func local(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// onlyLocalNames refuses requests for another host than this machine. A browser on
// it may be led here by a page from elsewhere whose name has come to mean the
// loopback address, and would give the page the answer.
func onlyLocalNames(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localName(r.Host) {
			http.Error(w, "want localhost or a loopback address as Host", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// localName reports whether a request's Host is this machine. Programs of old
// give none, browsers always do.
func localName(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
	}
	ip, err := netip.ParseAddr(host)
	return hostPort == "" || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") || err == nil && ip.Unmap().IsLoopback()
}
