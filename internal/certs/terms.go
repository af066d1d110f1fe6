package certs

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/kit"
)

// highestTerm is the highest accepted term: epochs of terms above it cannot be stored. Stored epochs raise the term up to 2^30 (see
// dispatch.Dispatcher), so that there is always room for later terms.
const highestTerm = 3 << 29

// Terms keeps the newest term of a leader in an annotation of the Secret, which outlives the Lease. A replica needs no additional
// rights for it, as it maintains the link's CA. It is written once for each change of the leader.
type Terms struct {
	client client.Client
	key    types.NamespacedName
}

var _ kit.Terms = &Terms{}

// NewTerms uses a client without a cache, which may write before this process leads.
func NewTerms(cluster *rest.Config, namespace string) (*Terms, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("make scheme for terms: %w", err)
	}
	c, err := client.New(rest.AddUserAgent(rest.CopyConfig(cluster), "leader-election"), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client for terms: %w", err)
	}
	return &Terms{client: c, key: types.NamespacedName{Namespace: namespace, Name: SecretName}}, nil
}

// Newest implements kit.Terms.
func (t *Terms) Newest(ctx context.Context) (int64, error) {
	secret, err := t.read(ctx)
	return storedTerm(ctx, secret), err
}

// Claim implements kit.Terms. The resource version keeps two replicas from claiming the same term.
func (t *Terms) Claim(ctx context.Context, atLeast int64) (term int64, err error) {
	isRetryable := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err = retry.OnError(retry.DefaultRetry, isRetryable, func() error {
		secret, err := t.read(ctx)
		if err != nil {
			return err
		}
		term = max(storedTerm(ctx, secret)+1, atLeast)
		setTerm(secret, term)
		return writeSecret(ctx, t.client, t.key, secret)
	})
	if err != nil {
		return 0, fmt.Errorf("store term in secret %q: %w", SecretName, err)
	}
	return term, nil
}

// read returns an empty Secret if there is none.
func (t *Terms) read(ctx context.Context) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := t.client.Get(ctx, t.key, secret); client.IgnoreNotFound(err) != nil {
		return secret, fmt.Errorf("read secret %q: %w", SecretName, err)
	}
	return secret, nil
}

// storedTerm ignores an invalid term: then terms grow by the Lease and by stored epochs alone.
func storedTerm(ctx context.Context, secret *corev1.Secret) int64 {
	text, ok := secret.Annotations[v1alpha1.AnnotationTerm]
	term, err := strconv.ParseInt(text, 10, 64)
	if ok && (err != nil || term < 0 || term > highestTerm) {
		log.FromContext(ctx).Info("ignoring an annotation that is not a term", "secret", SecretName, "annotation", v1alpha1.AnnotationTerm,
			"value", text)
		return 0
	}
	return term
}

func setTerm(secret *corev1.Secret, term int64) {
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[v1alpha1.AnnotationTerm] = strconv.FormatInt(term, 10)
}

// writeSecret creates the Secret, or updates it if it is still the one that was read.
func writeSecret(ctx context.Context, c client.Client, key types.NamespacedName, secret *corev1.Secret) error {
	if secret.ResourceVersion != "" {
		return c.Update(ctx, secret)
	}
	secret.Namespace, secret.Name = key.Namespace, key.Name
	secret.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator}
	secret.Type = corev1.SecretTypeOpaque
	return c.Create(ctx, secret)
}
