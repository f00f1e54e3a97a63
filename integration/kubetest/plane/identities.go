package plane

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// The files of the folder that hold keys.
const (
	caCert         = "ca.crt"
	serverCert     = "server.crt"
	serverKey      = "server.key"
	tokenKey       = "tokens.key" // signs the tokens of ServiceAccounts
	tokenPublicKey = "tokens.pub"
)

var controllerUser = User{Name: "system:kube-controller-manager"}

// identities are the authority and the kubeconfigs of a control plane.
type identities struct {
	ca          *x509.Certificate
	kubeconfigs map[string]string // files of users, but the controller manager's
}

// identify writes keys, certificates and kubeconfigs.
func identify(o Options, url string) (identities, error) {
	ca, err := newAuthority()
	if err != nil {
		return identities{}, fmt.Errorf("make an authority: %w", err)
	}
	ids := identities{ca: ca.cert, kubeconfigs: map[string]string{}}
	if err := writeServer(o, ca); err != nil {
		return ids, fmt.Errorf("make the server's keys: %w", err)
	}
	for _, u := range append(o.users(), controllerUser) {
		if err := writeKubeconfig(o.path(u.file()), ca, u, url); err != nil {
			return ids, fmt.Errorf("make a kubeconfig for %s: %w", u.Name, err)
		}
		ids.kubeconfigs[u.Name] = o.path(u.file())
	}
	delete(ids.kubeconfigs, controllerUser.Name)
	return ids, nil
}

// writeServer writes what the programs that serve need: one certificate for all of them, and the key for tokens.
func writeServer(o Options, ca authority) error {
	server, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: serverAddresses(o),
	})
	if err != nil {
		return err
	}
	tokens, err := newKey()
	if err != nil {
		return err
	}
	private, err := privatePEM(tokens)
	if err != nil {
		return err
	}
	public, err := publicPEM(tokens)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{
		{caCert, certPEM(ca.cert.Raw)}, {serverCert, server.cert}, {serverKey, server.key},
		{tokenKey, private}, {tokenPublicKey, public},
	} {
		if err := os.WriteFile(o.path(f.name), f.content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// serverAddresses are those that clients may dial: loopback, the API server's own, and the first of each range of
// ClusterIPs, which is that of the Service default/kubernetes.
func serverAddresses(o Options) []net.IP {
	all := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback(), o.Address}
	for _, r := range o.Ranges {
		all = append(all, r.Addr().Next())
	}
	var ips []net.IP
	for _, a := range all {
		ips = append(ips, a.AsSlice())
	}
	return ips
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: kubetest
contexts:
- {name: kubetest, context: {cluster: kubetest, user: %[1]q}}
clusters:
- {name: kubetest, cluster: {server: %[2]q, certificate-authority-data: %[3]s}}
users:
- {name: %[1]q, user: {client-certificate-data: %[4]s, client-key-data: %[5]s}}
`

func writeKubeconfig(path string, ca authority, u User, url string) error {
	client, err := ca.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: u.Name, Organization: u.Groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	b64 := base64.StdEncoding.EncodeToString
	text := fmt.Sprintf(kubeconfig, u.Name, url, b64(certPEM(ca.cert.Raw)), b64(client.cert), b64(client.key))
	return os.WriteFile(path, []byte(text), 0o600)
}
