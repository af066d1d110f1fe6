package certs

import (
	"bytes"
	"testing"
	"time"
)

func TestTermsAreProvenToLaterLeaders(t *testing.T) {
	d := newReconcilerHarness()
	proofs := NewReader(d.cluster, "swarm-system").TermProofs("swarm-system/swarm-operator")
	if proof := proofs.Prove(7); proof != nil || proofs.Proven(7, proof) {
		t.Errorf("proof %x without a key", proof)
	}
	d.reconcile(t)
	proof := proofs.Prove(7)
	if !proofs.Proven(7, proof) || proofs.Proven(8, proof) || proofs.Proven(7, nil) || proofs.Proven(7, proof[1:]) {
		t.Errorf("proof %x", proof)
	}
	if other := NewReader(d.cluster, "swarm-system").TermProofs("swarm-system/other"); other.Proven(7, proof) {
		t.Error("the term of another Lease is believed")
	}

	bundle := d.secret(t).Data[bundleKey]
	for d.time = testStart; bytes.Contains(d.secret(t).Data[bundleKey], bundle); d.time = d.time.Add(time.Hour) {
		d.reconcile(t)
	}
	if !proofs.Proven(7, proof) {
		t.Error("not believed any more after the rotation of the CA")
	}

	if err := d.cluster.Delete(t.Context(), d.secret(t)); err != nil {
		t.Fatal(err)
	}
	d.reconcile(t)
	if proofs.Proven(7, proof) {
		t.Error("believed with another key")
	}
}
