package lease

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"
	// microTime is the format of times in Leases.
	microTime = "2006-01-02T15:04:05.000000Z07:00"
	// maxResponseBytes is more than a Lease or the metadata of a pod can have.
	maxResponseBytes = 4 << 20
	// metadataOnly requests only the metadata of an object.
	metadataOnly = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
)

// An API is the Lease of a pod on an API server.
type API struct {
	Client    *http.Client
	Server    string // https://host:port
	Namespace string
	Pod, UID  string
}

// InCluster returns the API of the cluster in which this pod runs, with the permissions of its service account.
func InCluster(pod, uid string) (*API, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("find the API server: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	namespace, err := os.ReadFile(filepath.Join(serviceAccount, "namespace"))
	if err != nil {
		return nil, fmt.Errorf("find the pod's service account: %w: is automountServiceAccountToken false?", err)
	}
	caPEM, err := os.ReadFile(filepath.Join(serviceAccount, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("find the CA of the API server: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(caPEM) {
		return nil, errors.New("find the CA of the API server: ca.crt holds no certificate")
	}
	// A transport with its own TLS configuration uses HTTP/1.1: a request that hangs blocks only its own connection.
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: maxRequestTimeout}
	return &API{
		Client: &http.Client{Transport: tokenTransport{transport}}, Server: "https://" + net.JoinHostPort(host, port),
		Namespace: strings.TrimSpace(string(namespace)), Pod: pod, UID: uid,
	}, nil
}

// tokenTransport reads the token for each request, because the kubelet renews it.
type tokenTransport struct{ base http.RoundTripper }

func (b tokenTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := os.ReadFile(filepath.Join(serviceAccount, "token"))
	if err != nil {
		return nil, fmt.Errorf("read token: %w", err)
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	return b.base.RoundTrip(request)
}

type metadata struct {
	Name            string            `json:"name,omitempty"`
	Namespace       string            `json:"namespace,omitempty"`
	UID             string            `json:"uid,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
}

type leaseObject struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       struct {
		HolderIdentity       string `json:"holderIdentity,omitempty"`
		LeaseDurationSeconds int64  `json:"leaseDurationSeconds,omitempty"`
		RenewTime            string `json:"renewTime,omitempty"`
	} `json:"spec"`
}

func (o leaseObject) toRecord() Record {
	return Record{
		Version: o.Metadata.ResourceVersion, UID: o.Metadata.UID,
		Holder: o.Spec.HolderIdentity, Duration: time.Duration(o.Spec.LeaseDurationSeconds) * time.Second,
	}
}

func (a *API) leasesPath() string {
	return "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(a.Namespace) + "/leases"
}

func (a *API) leasePath() string { return a.leasesPath() + "/" + url.PathEscape(Name(a.Pod)) }

// Read implements Store.
func (a *API) Read(ctx context.Context) (Record, error) {
	var lease leaseObject
	code, err := a.call(ctx, http.MethodGet, a.leasePath(), nil, &lease)
	if code == http.StatusNotFound {
		return Record{}, ErrNotFound
	}
	return lease.toRecord(), err
}

// Write implements Store. A Lease without a holder is deleted, so that Leases of pods with random names do not pile up.
func (a *API) Write(ctx context.Context, record Record) (Record, error) {
	method, path, body := http.MethodPut, a.leasePath(), any(a.newLeaseObject(record))
	switch {
	case record.Version == "":
		method, path = http.MethodPost, a.leasesPath()
	case record.Holder == "":
		method = http.MethodDelete
		body = map[string]any{"apiVersion": "v1", "kind": "DeleteOptions",
			"preconditions": map[string]string{"uid": record.UID, "resourceVersion": record.Version}}
	}
	var written leaseObject
	code, err := a.call(ctx, method, path, body, &written)
	switch {
	case method == http.MethodDelete && (err == nil || code == http.StatusNotFound):
		return Record{}, nil
	case code == http.StatusConflict, method == http.MethodPut && code == http.StatusNotFound:
		return Record{}, fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return written.toRecord(), err
}

func (a *API) newLeaseObject(record Record) leaseObject {
	lease := leaseObject{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Metadata: metadata{
		Name: Name(a.Pod), Namespace: a.Namespace, UID: record.UID, ResourceVersion: record.Version,
		Labels: map[string]string{"app.kubernetes.io/managed-by": "swarm-worker"},
	}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = record.Holder, int64(record.Duration/time.Second)
	lease.Spec.RenewTime = time.Now().UTC().Format(microTime)
	return lease
}

// PodExists implements Store.
func (a *API) PodExists(ctx context.Context) (bool, error) {
	var pod leaseObject
	code, err := a.call(ctx, http.MethodGet, "/api/v1/namespaces/"+url.PathEscape(a.Namespace)+"/pods/"+url.PathEscape(a.Pod), nil, &pod)
	if code == http.StatusNotFound {
		return false, nil
	}
	return pod.Metadata.UID == a.UID, err
}

// call also returns the status code of the response, 0 for none.
func (a *API) call(ctx context.Context, method, path string, body any, result *leaseObject) (int, error) {
	var requestBody io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, fmt.Errorf("%s %s: %w", method, path, err)
		}
		requestBody = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, a.Server+path, requestBody)
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	request.Header.Set("Accept", "application/json")
	if strings.HasPrefix(path, "/api/v1/") {
		request.Header.Set("Accept", metadataOnly)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "swarm-worker")
	response, err := a.Client.Do(request)
	if err != nil {
		return 0, err // repeats method and address
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes))
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return response.StatusCode, fmt.Errorf("%s %s: %s", method, path, errorMessage(response.Status, text))
	}
	if err := json.Unmarshal(text, result); err != nil {
		return 0, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return response.StatusCode, nil
}

// errorMessage returns the API server's reason for a refusal.
func errorMessage(status string, text []byte) string {
	var apiStatus struct{ Message string }
	if json.Unmarshal(text, &apiStatus) == nil && apiStatus.Message != "" {
		return apiStatus.Message
	}
	return status
}
