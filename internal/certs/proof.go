package certs

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

const termKeyBytes = 32

func newTermKey() []byte {
	key := make([]byte, termKeyBytes)
	_, _ = rand.Read(key) // never fails
	return key
}

// TermProofs proves to later leaders which terms were assigned. Agents carry the proofs but cannot create them. The key survives the
// rotation of the CA; when the Secret is deleted, no earlier term can be proven.
type TermProofs struct {
	reader *Reader
	lease  string
}

// TermProofs returns the proofs of terms of a Lease, which is named as namespace/name.
func (f *Reader) TermProofs(lease string) TermProofs { return TermProofs{reader: f, lease: lease} }

// Prove implements link.Terms. It returns nil while there is no key.
func (t TermProofs) Prove(term int64) []byte {
	key := t.reader.latest(context.Background()).termKey // from the cache
	if key == nil {
		return nil
	}
	proof := hmac.New(sha256.New, key)
	proof.Write([]byte("swarm.io/term\x00" + t.lease + "\x00"))
	proof.Write(binary.BigEndian.AppendUint64(nil, uint64(term)))
	return proof.Sum(nil)
}

// Proven implements link.Terms.
func (t TermProofs) Proven(term int64, proof []byte) bool {
	want := t.Prove(term)
	return want != nil && hmac.Equal(want, proof)
}
