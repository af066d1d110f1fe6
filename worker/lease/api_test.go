package lease

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A fakeAPIServer implements what a Lease needs; it counts versions and checks preconditions.
type fakeAPIServer struct {
	lease     *leaseObject
	version   int
	pod       string
	forbidden bool
}

type request struct {
	leaseObject
	Preconditions struct{ UID, ResourceVersion string }
}

func (s *fakeAPIServer) handler() http.Handler {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
	routes := http.NewServeMux()
	for path, answer := range map[string]func(request) (int, any){
		"GET /api/v1/namespaces/ns/pods/w-0":     s.readPod,
		"POST " + leases:                         s.create,
		"GET " + leases + "/swarm-worker-w-0":    s.read,
		"PUT " + leases + "/swarm-worker-w-0":    s.update,
		"DELETE " + leases + "/swarm-worker-w-0": s.remove,
	} {
		routes.HandleFunc(path, func(response http.ResponseWriter, httpRequest *http.Request) {
			var received request
			content, _ := io.ReadAll(httpRequest.Body)
			_ = json.Unmarshal(content, &received)
			code, body := answer(received)
			if s.forbidden {
				code, body = http.StatusForbidden, map[string]string{"message": "leases is forbidden"}
			}
			response.WriteHeader(code)
			_ = json.NewEncoder(response).Encode(body)
		})
	}
	return routes
}

func (s *fakeAPIServer) readPod(request) (int, any) {
	if s.pod == "" {
		return http.StatusNotFound, nil
	}
	return http.StatusOK, leaseObject{Metadata: metadata{UID: s.pod}}
}

func (s *fakeAPIServer) create(sent request) (int, any) {
	if s.lease != nil {
		return http.StatusConflict, nil
	}
	return http.StatusCreated, s.store(sent.leaseObject)
}

func (s *fakeAPIServer) read(request) (int, any) {
	if s.lease == nil {
		return http.StatusNotFound, nil
	}
	return http.StatusOK, s.lease
}

func (s *fakeAPIServer) update(sent request) (int, any) {
	switch {
	case s.lease == nil:
		return http.StatusNotFound, nil
	case sent.Metadata.ResourceVersion != s.lease.Metadata.ResourceVersion:
		return http.StatusConflict, nil
	}
	return http.StatusOK, s.store(sent.leaseObject)
}

func (s *fakeAPIServer) remove(sent request) (int, any) {
	switch {
	case s.lease == nil:
		return http.StatusNotFound, nil
	case sent.Preconditions.ResourceVersion != s.lease.Metadata.ResourceVersion || sent.Preconditions.UID != "u":
		return http.StatusConflict, nil
	}
	s.lease = nil
	return http.StatusOK, map[string]string{"kind": "Status", "status": "Success"}
}

func (s *fakeAPIServer) store(sent leaseObject) *leaseObject {
	s.version++
	sent.Metadata.ResourceVersion, sent.Metadata.UID = strconv.Itoa(s.version), "u"
	s.lease = &sent
	return s.lease
}

func startFakeAPIServer(t *testing.T) (*fakeAPIServer, *API) {
	t.Helper()
	s := &fakeAPIServer{pod: "p-1"}
	web := httptest.NewServer(s.handler())
	t.Cleanup(web.Close)
	return s, &API{Client: web.Client(), Server: web.URL, Namespace: "ns", Pod: "w-0", UID: "p-1"}
}

// mustWrite expects an error, nil for none.
func mustWrite(t *testing.T, to *API, record Record, want error) Record {
	t.Helper()
	written, err := to.Write(t.Context(), record)
	if !errors.Is(err, want) {
		t.Errorf("write %+v: %v, want %v", record, err, want)
	}
	return written
}

func TestTheLeaseOnAnAPIServer(t *testing.T) {
	s, a := startFakeAPIServer(t)
	if _, err := a.Read(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Fatalf("read: %v", err)
	}
	made := mustWrite(t, a, Record{Holder: "p-1", Duration: 15 * time.Second}, nil)
	if want := (Record{"1", "u", "p-1", 15 * time.Second}); made != want {
		t.Fatalf("made %+v", made)
	}
	if _, err := time.Parse(time.RFC3339Nano, s.lease.Spec.RenewTime); err != nil || s.lease.Metadata.Name != "swarm-worker-w-0" {
		t.Errorf("made %+v: %v", s.lease, err)
	}
	mustWrite(t, a, Record{Holder: "p-2", Duration: time.Second}, ErrConflict)
	renewed := mustWrite(t, a, made, nil)
	mustWrite(t, a, made, ErrConflict) // there was another write since
	if found, err := a.Read(t.Context()); err != nil || found != renewed || found.Version != "2" {
		t.Errorf("read: %+v, %v", found, err)
	}
}

func TestALeaseIsGivenBackByDeletingIt(t *testing.T) {
	s, a := startFakeAPIServer(t)
	made := mustWrite(t, a, Record{Holder: "p-1", Duration: 15 * time.Second}, nil)
	renewed := mustWrite(t, a, made, nil)
	made.Holder, renewed.Holder = "", ""
	mustWrite(t, a, made, ErrConflict)
	mustWrite(t, a, renewed, nil)
	if s.lease != nil {
		t.Errorf("there is still %+v", s.lease)
	}
	mustWrite(t, a, renewed, nil)
	renewed.Holder = "p-1"
	mustWrite(t, a, renewed, ErrConflict) // it is to be created again
}

func TestAPodIsThereByItsUID(t *testing.T) {
	s, a := startFakeAPIServer(t)
	for _, uid := range []string{"p-1", "p-2", ""} {
		s.pod = uid
		if is, err := a.PodExists(t.Context()); err != nil || is != (uid == "p-1") {
			t.Errorf("pod %q: %t, %v", uid, is, err)
		}
	}
	s.forbidden = true
	if _, err := a.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "leases is forbidden") {
		t.Errorf("refused: %v", err)
	}
	if _, err := a.PodExists(t.Context()); err == nil {
		t.Error("a pod that may not be looked at is no pod that is gone")
	}
}

func TestOutsideOfAClusterThereIsNoLease(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := InCluster("w-0", "u"); err == nil || !strings.Contains(err.Error(), "KUBERNETES_SERVICE_HOST") {
		t.Errorf("got %v", err)
	}
}
