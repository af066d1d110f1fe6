package status

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(handler *Handler, method, path string) (int, string) {
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequest(method, path, http.NoBody))
	return response.Code, strings.TrimSpace(response.Body.String())
}

func TestAnswers(t *testing.T) {
	handler := NewHandler("swarm-worker-0", "u-1")
	expect := func(path, want string) {
		t.Helper()
		if code, body := get(handler, http.MethodGet, path); code != http.StatusOK || body != want {
			t.Errorf("%s: %d %s, want %s", path, code, body, want)
		}
	}
	expect(PathVersion, `{"worker":"swarm-worker-0","podUID":"u-1","version":0,"config":0}`)
	expect(PathHealth, `{"status":"waiting","problem":"the file has not been read yet","jobs":0,"running":0}`)
	handler.Acknowledge(3, 5)
	handler.Report("", 2, 1)
	expect(PathVersion, `{"worker":"swarm-worker-0","podUID":"u-1","version":3,"config":5}`)
	expect(PathHealth, `{"status":"ok","jobs":2,"running":1}`)
	handler.Report("no file", 2, 2)
	expect(PathHealth, `{"status":"waiting","problem":"no file","jobs":2,"running":2}`)
}

func TestNothingElseIsServed(t *testing.T) {
	handler := NewHandler("w", "u")
	for _, path := range []string{"/", "/internal", "/internal/version/", "/metrics"} {
		if code, _ := get(handler, http.MethodGet, path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _ := get(handler, http.MethodPost, PathVersion); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", code)
	}
}
