package limit

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// maxBody exceeds an admission review of the largest object that the API server accepts, which is 3 MiB.
	maxBody = 4 << 20
	// maxBodies is how many bytes of bodies are in memory at the same time. Decoding them takes several times as much.
	maxBodies = 16 << 20
	// bodyWait is how long a request waits for its turn, and bodyTimeout how long its body may take to arrive. The API server waits 2 s
	// for the answer.
	bodyWait, bodyTimeout = 500 * time.Millisecond, time.Second
)

// Bodies passes requests to a handler, as long as their bodies together are not too large. Anyone on the network can reach a webhook,
// not only the API server.
func Bodies(next http.Handler, refusals *Refusals) http.Handler {
	available := semaphore.NewWeighted(maxBodies)
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		size := request.ContentLength
		if size < 0 {
			size = maxBody
		}
		if size > maxBody {
			refusals.Count(AdmissionBytes)
			http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
			return
		}
		waitCtx, cancel := context.WithTimeout(request.Context(), bodyWait)
		defer cancel()
		if err := available.Acquire(waitCtx, size); err != nil {
			refusals.Count(AdmissionBytes)
			http.Error(w, "too many requests at the same time", http.StatusTooManyRequests)
			return
		}
		defer available.Release(size)
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // not supported by recorders of tests
		request.Body = http.MaxBytesReader(w, request.Body, size)
		next.ServeHTTP(w, request)
	})
}
