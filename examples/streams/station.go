package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// maxConflicts is how many are reported; all are counted.
const maxConflicts = 100

// A streamServer sends streams to its clients, and remembers which of them are connected. It is the neutral observer: it knows nothing
// about pools, files or acknowledgements, only connections.
type streamServer struct {
	interval time.Duration // between two lines of a stream

	mu        sync.Mutex
	listeners map[string][]*listener // current ones, by stream
	report    report
}

// A listener is one connection.
type listener struct {
	name string
	quit chan struct{} // closed when it has asked to end
}

// A report is what the server has observed.
type report struct {
	Consumers map[string][]string `json:"consumers"` // of each stream at this moment
	Served    int                 `json:"served"`    // connections in all
	Conflicts int                 `json:"conflicts"` // connections to a stream that already had a consumer
	Last      []string            `json:"last,omitempty"`
}

func newStreamServer(interval time.Duration) *streamServer {
	return &streamServer{interval: interval, listeners: map[string][]*listener{}}
}

func (s *streamServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /streams/{stream}", s.sendStream)
	mux.HandleFunc("DELETE /streams/{stream}", s.disconnect)
	mux.HandleFunc("GET /report", s.sendReport)
	return mux
}

// sendStream sends a line repeatedly until either side ends the stream. The consumer sees the end only after it was removed from the list.
func (s *streamServer) sendStream(response http.ResponseWriter, request *http.Request) {
	stream := request.PathValue("stream")
	l := s.addListener(stream, request.FormValue("consumer"))
	defer s.removeListener(stream, l)
	controller := http.NewResponseController(response)
	for number := 0; ; number++ {
		if _, err := fmt.Fprintf(response, "%s %d\n", stream, number); err != nil || controller.Flush() != nil {
			return
		}
		select {
		case <-time.After(s.interval):
		case <-l.quit:
			return
		case <-request.Context().Done():
			return
		}
	}
}

func (s *streamServer) addListener(stream, consumer string) *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Served++
	if others := s.listeners[stream]; len(others) > 0 {
		s.report.Conflicts++
		if len(s.report.Last) < maxConflicts {
			s.report.Last = append(s.report.Last, fmt.Sprintf("%s: %s, while %s consumes it", stream, consumer, others[0].name))
		}
	}
	l := &listener{name: consumer, quit: make(chan struct{})}
	s.listeners[stream] = append(s.listeners[stream], l)
	return l
}

func (s *streamServer) removeListener(stream string, target *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[stream] = slices.DeleteFunc(s.listeners[stream], func(l *listener) bool { return l == target })
}

// disconnect ends the connections that a consumer has to a stream.
func (s *streamServer) disconnect(response http.ResponseWriter, request *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners[request.PathValue("stream")] {
		select {
		case <-l.quit:
		default:
			if l.name == request.FormValue("consumer") {
				close(l.quit)
			}
		}
	}
	response.WriteHeader(http.StatusNoContent)
}

func (s *streamServer) sendReport(response http.ResponseWriter, _ *http.Request) {
	response.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(response).Encode(s.snapshot()) // the client is gone
}

func (s *streamServer) snapshot() report {
	s.mu.Lock()
	defer s.mu.Unlock()
	snapshot := s.report
	snapshot.Last = slices.Clone(snapshot.Last)
	snapshot.Consumers = map[string][]string{}
	for stream, listeners := range s.listeners {
		for _, l := range listeners {
			snapshot.Consumers[stream] = append(snapshot.Consumers[stream], l.name)
		}
	}
	return snapshot
}
