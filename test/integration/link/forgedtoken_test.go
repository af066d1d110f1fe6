package link

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/keyutil"
)

// forgeTimes is a token with other times, signed by the API server's own key.
func forgeTimes(token string, offset time.Duration) string {
	GinkgoHelper()
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	Expect(err).NotTo(HaveOccurred())
	claims := map[string]any{}
	Expect(json.Unmarshal(text, &claims)).To(Succeed())
	for _, name := range []string{"exp", "iat", "nbf"} {
		claims[name] = int64(claims[name].(float64) + offset.Seconds())
	}
	text, err = json.Marshal(claims)
	Expect(err).NotTo(HaveOccurred())
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(text)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature(signed))
}

func signature(text string) []byte {
	GinkgoHelper()
	key, err := keyutil.PrivateKeyFromFile(filepath.Join(os.Getenv("DEVCLUSTER_DATA"), "pki", "service-accounts.key"))
	Expect(err).NotTo(HaveOccurred())
	digest := sha256.Sum256([]byte(text))
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		Expect(err).NotTo(HaveOccurred())
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case *rsa.PrivateKey:
		made, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
		Expect(err).NotTo(HaveOccurred())
		return made
	}
	Fail("a key of another kind")
	return nil
}
