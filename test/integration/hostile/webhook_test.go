package hostile

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/swarm-io/swarm-operator/api/v1alpha1"
	"github.com/swarm-io/swarm-operator/internal/testkit/rawlink"
	"github.com/swarm-io/swarm-operator/internal/webhook/pool"
	"github.com/swarm-io/swarm-operator/internal/webhook/spread"
)

// postsAnswered counts the answers to hostile posts.
var postsAnswered atomic.Int64

// posts sends admission reviews that do not come from an API server.
var posts = attackSpec{func(ctx context.Context, s *environment) {
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
		DialContext: (&rawlink.Agent{SourceAddress: hostileAddress}).Dialer().DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		MaxIdleConnsPerHost: 8,
	}}
	defer client.CloseIdleConnections()
	post := func(path string, body io.Reader) {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://127.0.0.1:"+s.leader.webhook+path, body)
		if err != nil {
			return
		}
		request.Header.Set("Content-Type", "application/json")
		if response, err := client.Do(request); err == nil {
			postsAnswered.Add(1)
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
	var all sync.WaitGroup
	for worker := range 2 {
		all.Go(func() {
			repeat(ctx, 2*floodPace, func(n int) {
				path := []string{spread.Path, pool.Path}[n/2%2]
				post(path, s.body(n*2+worker))
			})
		})
	}
	all.Wait()
}, []attackMetric{{"answers to posts", &postsAnswered, 200}}}

const mega = 1 << 20

// body is the body of the nth post. Some are huge, with or without a Content-Length.
func (s *environment) body(n int) io.Reader {
	uid, hash, ns := fmt.Sprintf("uid-%d", n), fmt.Sprintf("hash-%d", n), s.tenantNamespace
	switch n % 32 {
	case 0:
		return bytes.NewReader(review(ns, strings.Repeat("u", 7*mega), hash))
	case 1:
		return io.MultiReader(bytes.NewReader(review(ns, strings.Repeat("u", 7*mega), hash))) // without a Content-Length
	case 2:
		return bytes.NewReader(review(ns, uid, strings.Repeat("h", mega)))
	case 3:
		return bytes.NewReader(review(ns, strings.Repeat("u", 3*mega), hash))
	case 4:
		return strings.NewReader(strings.Repeat("[", 3*mega))
	case 5:
		return strings.NewReader(`{"kind":"AdmissionReview","request":` + strings.Repeat(`{"object":`, 10_000))
	case 6:
		return strings.NewReader(intruder)
	case 7:
		return bytes.NewReader(review(s.honest[0].Namespace, uid, hash))
	case 8:
		return bytes.NewReader(review(ns, "\x00\u2028"+uid, "not a/label value"))
	case 9, 10, 11, 12:
		return bytes.NewReader(review(ns, uid, "")) // the worker of the pool
	}
	return bytes.NewReader(review(ns, uid, hash))
}

// review returns a review of a new pod of a spread workload, or without a hash of a worker of a pool.
func review(ns, uid, hash string) []byte {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{
		GenerateName: "web-" + hash + "-", Labels: map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash, v1alpha1.LabelPool: "pool"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-" + hash, UID: "owner",
			Controller: new(true)}},
	}}
	if hash == "" {
		pod.Name, pod.OwnerReferences[0].Kind, pod.OwnerReferences[0].Name = "worker-0", "StatefulSet", "worker"
	}
	encodedPod, err := json.Marshal(pod)
	if err != nil {
		panic(err) // these pods can always be encoded
	}
	encoded, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: types.UID(uid), Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource:  metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Namespace: ns, Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: encodedPod},
		},
	})
	if err != nil {
		panic(err)
	}
	return encoded
}
