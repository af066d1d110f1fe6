package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// mostConflicts is how many are reported; all are counted.
const mostConflicts = 100

// A station sends streams to its clients, and remembers which of them are connected. It is the referee: it does not know of pools, files or
// acknowledgements, only of connections.
type station struct {
	every time.Duration // between two lines of a stream

	mu        sync.Mutex
	listeners map[string][]*listener // current ones, by stream
	report    report
}

// A listener is one connection.
type listener struct {
	name string
	quit chan struct{} // closed when it has asked to go
}

// A report is what the referee has seen.
type report struct {
	Consumers map[string][]string `json:"consumers"` // of each stream at this moment
	Served    int                 `json:"served"`    // connections in all
	Conflicts int                 `json:"conflicts"` // connections to a stream that already had a consumer
	Last      []string            `json:"last,omitempty"`
}

func newStation(every time.Duration) *station {
	return &station{every: every, listeners: map[string][]*listener{}}
}

func (s *station) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /streams/{stream}", s.send)
	mux.HandleFunc("DELETE /streams/{stream}", s.dismiss)
	mux.HandleFunc("GET /report", s.tell)
	return mux
}

// send is the stream: a line, again and again, until either side has enough. The consumer reads the end only after it is
// off the list.
func (s *station) send(response http.ResponseWriter, request *http.Request) {
	stream := request.PathValue("stream")
	joined := s.join(stream, request.FormValue("consumer"))
	defer s.leave(stream, joined)
	controller := http.NewResponseController(response)
	for number := 0; ; number++ {
		if _, err := fmt.Fprintf(response, "%s %d\n", stream, number); err != nil || controller.Flush() != nil {
			return
		}
		select {
		case <-time.After(s.every):
		case <-joined.quit:
			return
		case <-request.Context().Done():
			return
		}
	}
}

func (s *station) join(stream, consumer string) *listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report.Served++
	if others := s.listeners[stream]; len(others) > 0 {
		s.report.Conflicts++
		if len(s.report.Last) < mostConflicts {
			s.report.Last = append(s.report.Last, fmt.Sprintf("%s: %s, while %s consumes it", stream, consumer, others[0].name))
		}
	}
	joined := &listener{name: consumer, quit: make(chan struct{})}
	s.listeners[stream] = append(s.listeners[stream], joined)
	return joined
}

func (s *station) leave(stream string, gone *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners[stream] = slices.DeleteFunc(s.listeners[stream], func(l *listener) bool { return l == gone })
}

// dismiss ends the connections that a consumer has to a stream.
func (s *station) dismiss(response http.ResponseWriter, request *http.Request) {
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

func (s *station) tell(response http.ResponseWriter, _ *http.Request) {
	response.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(response).Encode(s.seen()) // the client is gone
}

func (s *station) seen() report {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.report
	seen.Last = slices.Clone(seen.Last)
	seen.Consumers = map[string][]string{}
	for stream, listeners := range s.listeners {
		for _, l := range listeners {
			seen.Consumers[stream] = append(seen.Consumers[stream], l.name)
		}
	}
	return seen
}
