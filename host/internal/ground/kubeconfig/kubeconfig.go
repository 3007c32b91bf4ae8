// Package kubeconfig reads kubeconfigs: who a server is, and the credentials for it. It sends
// nothing.
package kubeconfig

import (
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evictd/evictd/host/internal/ground/input"
)

// maxFileBytes bounds a kubeconfig, certificate or token file, generously.
const maxFileBytes = 1 << 20

// Read is like clientcmd.BuildConfigFromFlags, which hangs on a pipe and reads a device without
// end. For the same reason it first reads the files named by the kubeconfig.
func Read(path string) (*rest.Config, error) {
	data, err := input.ReadFileSoon(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var named []*string
	for _, cluster := range config.Clusters {
		cluster.LocationOfOrigin = path
		named = append(named, &cluster.CertificateAuthority)
	}
	for _, user := range config.AuthInfos {
		user.LocationOfOrigin = path
		named = append(named, &user.ClientCertificate, &user.ClientKey, &user.TokenFile)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, err
	}
	for _, file := range named {
		// An unused context may name missing files.
		if _, err := input.ReadFileSoon(*file, maxFileBytes); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s names %s: %w", path, *file, err)
		}
	}
	return clientcmd.NewNonInteractiveClientConfig(*config, "", nil, nil).ClientConfig()
}
