package cluster

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// A User is an identity of a client at the API server.
type User struct {
	Name   string
	Groups []string
}

// Admin may do everything.
var Admin = User{Name: "admin", Groups: []string{"system:masters"}}

// Access provides access to the API server for several users.
type Access struct {
	// Node is the name of the node.
	Node string
	// Client has all rights.
	Client kubernetes.Interface
	// AdminKubeconfig is the path of a kubeconfig with all rights.
	AdminKubeconfig string
	// KubeletKubeconfig is the kubelet's own.
	KubeletKubeconfig string

	authority *authority
	server    string
	admin     *http.Client // as Admin
}

// newAccess creates the cluster's certificate authority in dir, the certificates and kubeconfigs
// of its parts, and the clients.
func newAccess(dir, node, server string) (_ *Access, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	a := &Access{Node: node, server: server}
	if a.authority, err = newAuthority(dir); err != nil {
		return nil, err
	}
	if err := a.authority.signingKey("accounts.key"); err != nil {
		return nil, err
	}
	for name, user := range map[string]User{
		"apiserver":      {Name: "kube-apiserver"},
		"apiserver-node": {Name: "kube-apiserver-kubelet-client", Groups: Admin.Groups},
		"kubelet":        a.NodeUser(),
	} {
		if err := a.authority.issueFiles(name, user, node); err != nil {
			return nil, err
		}
	}
	for _, user := range []User{controllerManager, scheduler} {
		if _, err := a.Kubeconfig(user); err != nil {
			return nil, err
		}
	}
	if a.KubeletKubeconfig, err = a.Kubeconfig(a.NodeUser()); err != nil {
		return nil, err
	}
	if a.AdminKubeconfig, err = a.Kubeconfig(Admin); err != nil {
		return nil, err
	}
	config, err := a.Config(Admin)
	if err != nil {
		return nil, err
	}
	if a.admin, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	a.Client, err = kubernetes.NewForConfigAndClient(config, a.admin)
	return a, err
}

// NodeUser returns the identity of the node's kubelet.
func (a *Access) NodeUser() User { return NodeUser(a.Node) }

// NodeUser returns the identity of the kubelet of a node.
func NodeUser(node string) User {
	return User{Name: "system:node:" + node, Groups: []string{"system:nodes"}}
}

// Config returns a client configuration for the user, without a rate limit.
func (a *Access) Config(user User) (*rest.Config, error) {
	cert, key, err := a.authority.issue(user, a.Node)
	if err != nil {
		return nil, err
	}
	config := a.anonymous()
	config.CertData, config.KeyData = cert, key
	return config, nil
}

// anonymous returns a client configuration without credentials.
func (a *Access) anonymous() *rest.Config {
	return &rest.Config{Host: a.server, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAFile: a.authority.file("ca.crt")}}
}

// Kubeconfig writes a kubeconfig for the user and returns its path.
func (a *Access) Kubeconfig(user User) (string, error) {
	cert, key, err := a.authority.issue(user, a.Node)
	if err != nil {
		return "", err
	}
	return a.writeKubeconfig(user.Name, &api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
}

// Token requests a token for a ServiceAccount. The token is bound to a pod or a node, unless bound
// is nil.
func (a *Access) Token(ctx context.Context, namespace, account string, bound *authenticationv1.BoundObjectReference) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
	got, err := a.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("token of %s/%s: %w", namespace, account, err)
	}
	return got.Status.Token, nil
}

// ToPod returns a reference that binds a token to a pod.
func ToPod(pod metav1.Object) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.GetName(), UID: pod.GetUID()}
}

// ToNode returns a reference that binds a token to a node.
func ToNode(node metav1.Object) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.GetName(), UID: node.GetUID()}
}

// TokenKubeconfig writes a kubeconfig that uses the token and returns its path. The token is in
// the file PATH.token, which clients reread periodically.
func (a *Access) TokenKubeconfig(name, token string) (string, error) {
	file := a.kubeconfigFile(name) + ".token"
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return "", fmt.Errorf("write token: %w", err)
	}
	return a.writeKubeconfig(name, &api.AuthInfo{TokenFile: file})
}

func (a *Access) kubeconfigFile(name string) string {
	return filepath.Join(a.authority.dir, name+".kubeconfig")
}

func (a *Access) writeKubeconfig(name string, who *api.AuthInfo) (string, error) {
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: a.server, CertificateAuthority: a.authority.file("ca.crt")}
	config.AuthInfos["user"] = who
	config.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "user"}
	config.CurrentContext = "test"
	file := a.kubeconfigFile(name)
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return "", fmt.Errorf("write kubeconfig of %s: %w", name, err)
	}
	return file, nil
}
