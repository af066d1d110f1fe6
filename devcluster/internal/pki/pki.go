// Package pki makes the throw-away certificates of one development cluster: a CA, and what it signs.
// Keys never leave the cluster's data folder, and everything is valid for a year.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/keyutil"
)

const lifetime = 365 * 24 * time.Hour

// Authority signs the certificates of one cluster and keeps them, with their keys, in one folder.
type Authority struct {
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

// Pair names the two files of a certificate.
type Pair struct{ Cert, Key string }

// Subject is the subject of a certificate: a user with groups, or a server with names and addresses.
type Subject struct {
	Name      string
	Groups    []string
	DNS       []string
	Addresses []net.IP
}

// New makes a fresh authority in folder.
func New(folder, name string) (*Authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the certificate folder: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the CA's key: %w", err)
	}
	template := certificate(Subject{Name: name})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	authority := &Authority{folder: folder, cert: template, key: key}
	_, err = authority.write("ca", template, key)
	if err != nil {
		return nil, err
	}
	return authority, nil
}

// CA is the file that clients and servers trust.
func (a *Authority) CA() string { return filepath.Join(a.folder, "ca.crt") }

// Issue signs a certificate that serves as client and as server, and writes it as name.crt and name.key.
func (a *Authority) Issue(name string, subject Subject) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make the key of %s: %w", name, err)
	}
	template := certificate(subject)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	return a.write(name, template, key)
}

// SigningKey makes the key that signs service account tokens.
func (a *Authority) SigningKey() (Pair, error) {
	return a.Issue("service-accounts", Subject{Name: "service-accounts"})
}

func (a *Authority) write(name string, template *x509.Certificate, key *ecdsa.PrivateKey) (Pair, error) {
	pair := Pair{Cert: filepath.Join(a.folder, name+".crt"), Key: filepath.Join(a.folder, name+".key")}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return pair, fmt.Errorf("sign the certificate of %s: %w", name, err)
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return pair, fmt.Errorf("encode the key of %s: %w", name, err)
	}
	if err := os.WriteFile(pair.Key, encoded, 0o600); err != nil {
		return pair, fmt.Errorf("write the key of %s: %w", name, err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(pair.Cert, block, 0o600); err != nil {
		return pair, fmt.Errorf("write the certificate of %s: %w", name, err)
	}
	return pair, nil
}

// certificate is valid from an hour ago, so that a clock that was set back meanwhile does no harm.
func certificate(subject Subject) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: subject.Name, Organization: subject.Groups},
		DNSNames:     subject.DNS,
		IPAddresses:  subject.Addresses,
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(lifetime),
	}
}
