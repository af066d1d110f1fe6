package certs

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
)

func (d *reconcilerHarness) terms() *Terms { return &Terms{client: d.cluster, key: d.key()} }

// claim claims a term and compares it with the expected one.
func claim(t *testing.T, terms *Terms, atLeast, want int64) {
	t.Helper()
	got, err := terms.Claim(t.Context(), atLeast)
	newest, readable := terms.Newest(t.Context())
	if err != nil || readable != nil || got != want || newest != want {
		t.Errorf("claimed %d, stored %d, want %d: %v, %v", got, newest, want, err, readable)
	}
}

func TestTermsGrowAndStayWithTheSecret(t *testing.T) {
	d := newReconcilerHarness()
	terms := d.terms()
	if newest, err := terms.Newest(t.Context()); newest != 0 || err != nil {
		t.Errorf("term %d before any was claimed: %v", newest, err)
	}
	claim(t, terms, 1, 1) // before there is a CA
	d.reconcile(t)
	made := d.secret(t)
	if len(made.Data) != 5 || made.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedByOperator || made.Type != corev1.SecretTypeOpaque {
		t.Errorf("secret %+v with %d keys", made.ObjectMeta, len(made.Data))
	}
	claim(t, terms, 1, 2) // the Lease was deleted
	claim(t, terms, 7, 7)
	if kept := d.secret(t); string(kept.Data[signerKey]) != string(made.Data[signerKey]) {
		t.Error("claiming a term has changed a key")
	}
}

func TestWhatIsNotATermIsIgnored(t *testing.T) {
	for _, text := range []string{"", "many", "-3", "1610612737", "99999999999999999999"} {
		d := newReconcilerHarness()
		d.reconcile(t)
		secret := d.secret(t)
		secret.Annotations = map[string]string{v1alpha1.AnnotationTerm: text}
		if err := d.cluster.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		claim(t, d.terms(), 3, 3)
	}
	d := newReconcilerHarness()
	claim(t, d.terms(), highestTerm, highestTerm)
	if newest, err := d.terms().Newest(t.Context()); newest != highestTerm || err != nil {
		t.Errorf("term %d: %v", newest, err)
	}
}

// Two replicas find the Lease deleted at the same time.
func TestTwoReplicasNeverClaimTheSameTerm(t *testing.T) {
	for name, existing := range map[string]bool{"of a Secret that exists": true, "of a Secret that does not": false} {
		d := newReconcilerHarness()
		if existing {
			d.reconcile(t)
		}
		other := d.terms()
		others := int64(0)
		conflicted := interceptor.NewClient(d.cluster, interceptor.Funcs{
			Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				err := inner.Get(ctx, key, object, options...)
				if others == 0 {
					others, _ = other.Claim(ctx, 1)
				}
				return err
			},
		})
		term, err := (&Terms{client: conflicted, key: d.key()}).Claim(t.Context(), 1)
		if err != nil || others != 1 || term != 2 {
			t.Errorf("%s: claimed %d after another claimed %d: %v", name, term, others, err)
		}
	}
}

func TestTermThatCannotBeStoredIsNotClaimed(t *testing.T) {
	d := newReconcilerHarness()
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, SecretName, errors.New("no rule"))
	for name, funcs := range map[string]interceptor.Funcs{
		"read": {Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return refused
		}},
		"write": {Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return refused }},
	} {
		term, err := (&Terms{client: interceptor.NewClient(d.cluster, funcs), key: d.key()}).Claim(t.Context(), 4)
		if term != 0 || !apierrors.IsForbidden(err) {
			t.Errorf("%s refused: term %d, %v", name, term, err)
		}
	}
}

// Deleting the Secret to get a new CA must not restart the terms.
func TestReconcilerRestoresTheTerm(t *testing.T) {
	d := newReconcilerHarness()
	d.leads = 6
	d.reconcile(t)
	claim(t, d.terms(), 1, 7)
	if err := d.cluster.Delete(t.Context(), d.secret(t)); err != nil {
		t.Fatal(err)
	}
	d.leads = 7
	d.reconcile(t)
	claim(t, d.terms(), 1, 8)
}

func TestReconcilerDoesNotLowerTheTerm(t *testing.T) {
	d := newReconcilerHarness()
	claim(t, d.terms(), 9, 9)
	d.leads = 8 // another replica has claimed 9
	d.reconcile(t)
	if got := d.secret(t).Annotations[v1alpha1.AnnotationTerm]; got != "9" {
		t.Errorf("term %s", got)
	}
}
