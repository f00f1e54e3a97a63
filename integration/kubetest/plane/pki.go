package plane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"time"
)

// authority signs the certificates of one control plane.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// pair is a certificate and its key, in PEM.
type pair struct{ cert, key []byte }

func newAuthority() (authority, error) {
	key, err := newKey()
	if err != nil {
		return authority{}, err
	}
	template := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "kubetest"},
		IsCA:     true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	self := authority{cert: template, key: key}
	der, err := self.sign(template, key)
	if err != nil {
		return authority{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return authority{cert: cert, key: key}, err
}

// issue makes a key and a certificate for it.
func (a authority) issue(template *x509.Certificate) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	cert, err := a.sign(template, key)
	if err != nil {
		return pair{}, err
	}
	private, err := privatePEM(key)
	return pair{cert: certPEM(cert), key: private}, err
}

// sign completes a template and signs it, valid for a year from an hour ago. It draws the serial number by itself.
func (a authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) ([]byte, error) {
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.AddDate(1, 0, 0)
	template.BasicConstraintsValid = true
	return x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func privatePEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}

func publicPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
}
