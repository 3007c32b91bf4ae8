// Package access authenticates and authorizes readers of evictd's endpoints with the API server.
// It reviews bearer tokens (TokenReview) and paths (SubjectAccessReview), like the kubelet's own
// endpoints.
//
// It does not know what is served, nor how the API server is reached.
package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// allowedFor and deniedFor are how long an answer is cached, as in the kubelet
	// (authentication.webhook.cacheTTL, authorization.webhook).
	allowedFor = 2 * time.Minute
	deniedFor  = 10 * time.Second
	// reviewTimeout bounds both reviews together, below the server's limit for a response.
	reviewTimeout = 5 * time.Second
	// cachedAnswers bounds each cache. A cluster has a few scrapers.
	cachedAnswers = 256
	// maxReviews bounds the requests that wait for the API server, maxReviewsPerPeer those of one
	// address, so that an address with invalid tokens does not block others.
	maxReviews, maxReviewsPerPeer = 16, 2
	// logInterval bounds how often failures are logged.
	logInterval = time.Minute
)

// Reviewer is the API server.
type Reviewer interface {
	// TokenReview returns the user of a token, nil if it is not valid.
	TokenReview(ctx context.Context, token string) (*authenticationv1.UserInfo, error)
	// SubjectAccessReview reports whether a user may do verb to a non-resource path.
	SubjectAccessReview(ctx context.Context, user authenticationv1.UserInfo, verb, path string) (allowed bool, err error)
}

// Options configures a Guard. API and Log are required.
type Options struct {
	API Reviewer
	Log *slog.Logger
}

// A Guard is a handler that authorizes requests to another one.
type Guard struct {
	Options

	next            http.Handler
	allowed, denied *cache.LRUExpireCache
	failed          rate.Sometimes

	mu      sync.Mutex
	reviews map[string]int // under way, by peer
	total   int
}

// New returns a Guard of next.
func New(next http.Handler, o Options) *Guard {
	return &Guard{
		Options: o, next: next, allowed: cache.NewLRUExpireCache(cachedAnswers), denied: cache.NewLRUExpireCache(cachedAnswers),
		failed: rate.Sometimes{Interval: logInterval}, reviews: map[string]int{},
	}
}

// A question is the key of a cached answer, with a hash of the token.
type question struct {
	token [sha256.Size]byte
	path  string
}

// ServeHTTP implements http.Handler.
func (g *Guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := bearer(r)
	if token == "" {
		refuse(w, http.StatusUnauthorized)
		return
	}
	asked := question{sha256.Sum256([]byte(token)), r.URL.Path}
	if _, ok := g.allowed.Get(asked); ok {
		g.next.ServeHTTP(w, r)
		return
	}
	if code, ok := g.denied.Get(asked); ok {
		refuse(w, code.(int))
		return
	}
	switch code, err := g.review(r, token); {
	case err != nil:
		g.failed.Do(func() {
			g.Log.Warn("request refused, the API server was not asked for the token", "path", r.URL.Path, "error", err)
		})
		refuse(w, http.StatusServiceUnavailable)
	case code != http.StatusOK:
		g.denied.Add(asked, code, deniedFor)
		refuse(w, code)
	default:
		g.allowed.Add(asked, code, allowedFor)
		g.next.ServeHTTP(w, r)
	}
}

// review asks the API server and returns the status code for the response.
func (g *Guard) review(r *http.Request, token string) (code int, err error) {
	peer, err := peerOf(r.RemoteAddr)
	if err != nil {
		return 0, err
	}
	if !g.begin(peer) {
		return 0, errors.New("too many requests wait for the API server")
	}
	defer g.end(peer)
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	user, err := g.API.TokenReview(ctx, token)
	if err != nil {
		return 0, err
	}
	if user == nil {
		return http.StatusUnauthorized, nil
	}
	allowed, err := g.API.SubjectAccessReview(ctx, *user, "get", r.URL.Path)
	switch {
	case err != nil:
		return 0, err
	case !allowed:
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

// peerOf identifies a peer by the address in IP:port; for IPv6 by the network that one machine commonly owns.
func peerOf(address string) (string, error) {
	remote, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", err
	}
	ip := remote.Addr().Unmap()
	if ip.Is4() {
		return ip.String(), nil
	}
	network, err := ip.WithZone("").Prefix(64)
	return network.String(), err
}

func (g *Guard) begin(peer string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.total >= maxReviews || g.reviews[peer] >= maxReviewsPerPeer {
		return false
	}
	g.total++
	g.reviews[peer]++
	return true
}

func (g *Guard) end(peer string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	if g.reviews[peer]--; g.reviews[peer] == 0 {
		delete(g.reviews, peer)
	}
}

// bearer returns the bearer token of a request, "" if it has no valid one (RFC 6750).
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	foreign := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-._~+/=", c)
	}
	if !strings.EqualFold(scheme, "Bearer") || strings.ContainsFunc(token, foreign) {
		return ""
	}
	return token
}

// refuse responds with the status code only: the reason is for the log and the API server.
func refuse(w http.ResponseWriter, code int) {
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	http.Error(w, http.StatusText(code), code)
}
