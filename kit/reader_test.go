package kit

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Without NewClients the reader past the caches is the manager's.
func TestReaderPastTheCachesComesWithTheClient(t *testing.T) {
	live := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "live"}}).Build()
	w := newOperatorHarness(t, Options{NewClients: func(*rest.Config, client.Options) (client.Client, client.Reader, error) {
		return fake.NewClientBuilder().Build(), live, nil
	}})
	if w.GetAPIReader() != client.Reader(live) || w.Manager.GetAPIReader() == client.Reader(live) {
		t.Error("the reader is not the one that was made with the client")
	}
	if err := w.GetClient().Delete(t.Context(), &corev1.ConfigMap{}); !errors.Is(err, ErrNotLeading) {
		t.Errorf("the client that was made writes before it leads: %v", err)
	}
	if plain := newOperatorHarness(t, Options{}); plain.GetAPIReader() != plain.Manager.GetAPIReader() {
		t.Error("without a choice, the reader is not the manager's")
	}
	refused := errors.New("refused")
	_, err := NewOperator(&rest.Config{Host: "http://localhost"}, Options{
		Manager:  manager.Options{Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, MapperProvider: noMapper},
		Election: Election{Namespace: "swarm-system", Name: "operator", Identity: "pod-1"},
		NewClients: func(*rest.Config, client.Options) (client.Client, client.Reader, error) {
			return nil, nil, refused
		},
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

func noMapper(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return meta.NewDefaultRESTMapper(nil), nil
}
