// Package linktest is an operator's end of the link for tests: a real server on a real socket, with a certificate authority,
// tokens and leadership that a test can control, a recorder of agents' messages, and a network that can be frozen. It is for
// the tests of link, agent and dispatchers.
package linktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ServerName is in the certificate of the operator.
const ServerName = "swarm-link.test"

// A CA is a certificate authority with one certificate, which operators show to agents and to each other. It is a link.Certificates.
type CA struct {
	PEM  []byte
	Pool *x509.CertPool
	Peer tls.Certificate
}

// NewCA creates a CA.
func NewCA(t testing.TB) *CA {
	t.Helper()
	key := newKey(t)
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "linktest"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root := createCertificate(t, authority, authority, key, key)
	serverKey := newKey(t)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{ServerName},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	ca := &CA{Pool: x509.NewCertPool(), PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root})}
	ca.Pool.AppendCertsFromPEM(ca.PEM)
	ca.Peer = tls.Certificate{Certificate: [][]byte{createCertificate(t, leaf, authority, serverKey, key)}, PrivateKey: serverKey}
	return ca
}

// Certificate implements link.Certificates.
func (c *CA) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &c.Peer, nil }

// File writes the CA's certificate for an agent to read.
func (c *CA) File(t testing.TB) string { return WriteFile(t, "ca.crt", c.PEM) }

// WriteFile writes content to a temporary folder of the test.
func WriteFile(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func createCertificate(t testing.TB, certificate, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	t.Helper()
	certificateDER, err := x509.CreateCertificate(rand.Reader, certificate, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return certificateDER
}
