package limit

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// newTestRefusals returns refusals, and a function that reads the metric.
func newTestRefusals(t *testing.T) (refusals *Refusals, refused func(Limit) int) {
	t.Helper()
	registry := prometheus.NewRegistry()
	return NewRefusals(registry), func(reached Limit) int {
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || families[0].GetName() != "swarm_limit_refused_total" {
			t.Fatalf("%d metrics, %v", len(families), err)
		}
		for _, series := range families[0].GetMetric() {
			if series.GetLabel()[0].GetValue() == string(reached) {
				return int(series.GetCounter().GetValue())
			}
		}
		return -1
	}
}

func TestLimitsAreShownBeforeTheyAreReached(t *testing.T) {
	_, refused := newTestRefusals(t)
	for _, each := range allLimits {
		if got := refused(each); got != 0 {
			t.Errorf("%s: %d", each, got)
		}
	}
}

// A holdingHandler reads bodies and keeps them until released.
type holdingHandler struct {
	holding, maxHolding atomic.Int64
	release             chan struct{}
}

func (h *holdingHandler) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	held := h.holding.Add(int64(len(body)))
	for most := h.maxHolding.Load(); held > most && !h.maxHolding.CompareAndSwap(most, held); most = h.maxHolding.Load() {
	}
	<-h.release
	h.holding.Add(-int64(len(body)))
}

func post(t *testing.T, url string, body io.Reader) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0 // the server has answered before it has read everything, and closed the connection
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

func TestBodiesTogetherAreBounded(t *testing.T) {
	handler := &holdingHandler{release: make(chan struct{})}
	refusals, refused := newTestRefusals(t)
	server := httptest.NewServer(Bodies(handler, refusals))
	defer server.Close()
	const posts, fit = 12, 5 // of 3 MiB each
	codes := make(chan int, posts)
	for range posts {
		go func() { codes <- post(t, server.URL, bytes.NewReader(make([]byte, 3<<20))) }()
	}
	for range posts - fit {
		if code := <-codes; code == http.StatusOK {
			t.Error("a request ended that was to be held")
		}
	}
	close(handler.release)
	accepted := 0
	for range fit {
		if <-codes == http.StatusOK {
			accepted++
		}
	}
	if most := handler.maxHolding.Load(); most > maxBodies || accepted != fit || refused(AdmissionBytes) != posts-fit {
		t.Errorf("%d bytes were held at a time, %d requests were accepted", most, accepted)
	}
	if code := post(t, server.URL, bytes.NewReader(make([]byte, 3<<20))); code != http.StatusOK {
		t.Errorf("after all have ended: %d", code)
	}
}

func TestBodyThatIsTooLargeIsNotRead(t *testing.T) {
	handler := &holdingHandler{release: make(chan struct{})}
	refusals, refused := newTestRefusals(t)
	close(handler.release)
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(make([]byte, maxBody+1)))
	Bodies(handler, refusals).ServeHTTP(recorder, request)
	if recorder.Code != http.StatusRequestEntityTooLarge || handler.maxHolding.Load() > 0 || refused(AdmissionBytes) != 1 {
		t.Errorf("code %d, %d bytes read", recorder.Code, handler.maxHolding.Load())
	}
}

// A body of undeclared length counts as the largest, and is cut off there.
func TestBodyOfUnknownLengthIsBounded(t *testing.T) {
	handler := &holdingHandler{release: make(chan struct{})}
	refusals, _ := newTestRefusals(t)
	close(handler.release)
	server := httptest.NewServer(Bodies(handler, refusals))
	defer server.Close()
	post(t, server.URL, io.MultiReader(bytes.NewReader(make([]byte, maxBody)), bytes.NewReader(make([]byte, maxBody))))
	if handler.maxHolding.Load() > 0 {
		t.Errorf("%d bytes were taken", handler.maxHolding.Load())
	}
}

// A sender that never finishes loses its share.
func TestSlowBodyIsGivenUp(t *testing.T) {
	behind := &holdingHandler{release: make(chan struct{})}
	refusals, _ := newTestRefusals(t)
	close(behind.release)
	server := httptest.NewServer(Bodies(behind, refusals))
	defer server.Close()
	for range 4 {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if _, err := io.WriteString(connection, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4194304\r\n\r\nslow"); err != nil {
			t.Fatal(err)
		}
	}
	for post(t, server.URL, bytes.NewReader(make([]byte, 3<<20))) != http.StatusOK {
		// Refused until the slow ones have timed out.
	}
}
