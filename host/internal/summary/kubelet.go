package summary

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
)

// kubelet gets the summary over HTTPS.
type kubelet struct {
	options Options
	url     string
	size    atomic.Int64

	mu     sync.Mutex
	made   tlsFiles // what client is made of
	client *http.Client
}

func newKubelet(u *url.URL, o Options) Source {
	k := &kubelet{options: o, url: u.String()}
	return &source{name: k.url, fetch: k.fetch, close: k.close}
}

func (k *kubelet) fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := deadline(ctx, k.options.Timeout)
	defer cancel()
	token, err := readToken(k.options.TokenFile)
	if err != nil {
		return nil, err
	}
	client, err := k.current()
	if err != nil {
		return nil, err
	}
	return get{url: k.url, token: token, size: &k.size}.do(ctx, client)
}

// current returns the client for the files as they are now. Requests under way
// end with the former one. Reading a few kilobytes at each pass beats any
// notification, which would miss some of the ways in which files change.
func (k *kubelet) current() (*http.Client, error) {
	files, err := readTLSFiles(&k.options)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client != nil && k.made.equal(files) {
		return k.client, nil
	}
	config, err := files.config(&k.options)
	if err != nil {
		return nil, err
	}
	if k.client != nil {
		k.client.CloseIdleConnections()
	}
	k.client, k.made = newClient(&http.Transport{TLSClientConfig: config}), files
	return k.client, nil
}

func (k *kubelet) close(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client != nil {
		k.client.CloseIdleConnections()
	}
	return nil
}
