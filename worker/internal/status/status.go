// Package status serves what a worker reports about itself over HTTP: to the operator, which list it has acknowledged; to the kubelet and
// to users, that it is alive and what it waits for.
package status

import (
	"encoding/json"
	"net/http"
	"sync"
)

// The two paths.
const (
	PathVersion = "/internal/version"
	PathHealth  = "/internal/health"
)

// An Acknowledgement means that everything that runs is on this list or on a later one. All zero: nothing is acknowledged.
type Acknowledgement struct {
	Worker  string `json:"worker"`
	PodUID  string `json:"podUID"`
	Version int64  `json:"version"` // of the worker's own list
	Config  int64  `json:"config"`  // of the file
}

// Health is the state of the worker. It never asks for a restart: a new process would wait for the same things.
type Health struct {
	Status  string `json:"status"`            // ok, or waiting when there is a problem
	Problem string `json:"problem,omitempty"` // what it waits for
	Jobs    int    `json:"jobs"`              // on its list
	Running int    `json:"running"`
}

// A Handler holds the latest of both.
type Handler struct {
	mu              sync.Mutex
	acknowledgement Acknowledgement
	health          Health
}

// NewHandler returns the handler of a worker that has not read anything yet.
func NewHandler(worker, podUID string) *Handler {
	return &Handler{
		acknowledgement: Acknowledgement{Worker: worker, PodUID: podUID},
		health:          Health{Status: "waiting", Problem: "the file has not been read yet"},
	}
}

// Acknowledge replaces the acknowledged versions; zeros withdraw them.
func (h *Handler) Acknowledge(version, config int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acknowledgement.Version, h.acknowledgement.Config = version, config
}

// Report replaces the worker's health.
func (h *Handler) Report(problem string, jobs, running int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.health = Health{Status: "ok", Problem: problem, Jobs: jobs, Running: running}
	if problem != "" {
		h.health.Status = "waiting"
	}
}

// ServeHTTP answers GET on the two paths.
func (h *Handler) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	h.mu.Lock()
	acknowledgement, health := h.acknowledgement, h.health
	h.mu.Unlock()
	switch {
	case request.URL.Path != PathVersion && request.URL.Path != PathHealth:
		http.NotFound(response, request)
	case request.Method != http.MethodGet && request.Method != http.MethodHead:
		response.Header().Set("Allow", "GET, HEAD")
		http.Error(response, "only GET", http.StatusMethodNotAllowed)
	case request.URL.Path == PathVersion:
		writeJSON(response, acknowledgement)
	default:
		writeJSON(response, health)
	}
}

func writeJSON(response http.ResponseWriter, value any) {
	response.Header().Set("Content-Type", "application/json")
	response.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(response).Encode(value) // the client is gone
}
