package fakeworkers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// requestTimeout is the timeout of a request.
const requestTimeout = 5 * time.Second

// WorkerStatus is what a worker reports about itself.
type WorkerStatus struct {
	Worker  string `json:"worker"`
	PodUID  string `json:"podUID"`
	Version int64  `json:"version"`
	Config  int64  `json:"config"`
}

// UID returns the UID of the pod.
func (w *Worker) UID() string { return string(w.uid) }

// ConfigVersion returns the version that the worker's files ask for. It comes from the pod's annotation, and later than on the API server.
func (w *Worker) ConfigVersion() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.configVersion
}

// PauseFileUpdates delays lists: the annotation is updated, the file is not.
func (w *Worker) PauseFileUpdates() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.volume.updatesPaused = true
}

// ResumeFileUpdates writes the delayed list.
func (w *Worker) ResumeFileUpdates() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.volume.updatesPaused = false
	w.logError(w.volume.sync())
}

// RejectRequests makes the worker reject requests. It continues its work.
func (w *Worker) RejectRequests() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rejectsRequests = true
}

// OverrideStatus changes the status that the worker reports; nil restores the real one.
func (w *Worker) OverrideStatus(change func(*WorkerStatus)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statusOverride = change
}

// Restart kills the worker's process and starts another with the current files, as the kubelet restarts a container.
func (w *Worker) Restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.process == nil {
		return
	}
	w.process.kill()
	next, err := w.spawn(context.Background())
	w.logError(err)
	w.process = next
}

// CrashAfterNextStop restarts the worker's process after it has stopped the next job, before it can acknowledge that.
func (w *Worker) CrashAfterNextStop() { w.crashAfterStop.Store(true) }

// OutlivePod makes the worker continue when its pod is deleted, as on an unreachable node. The pod is removed without it.
func (w *Worker) OutlivePod() { w.outlivesPod.Store(true) }

// SetDisconnected disconnects the worker from the API server, or reconnects it.
func (w *Worker) SetDisconnected(cut bool) { w.disconnected.Store(cut) }

// Kill ends the worker's process as SIGKILL does, and starts no other.
func (w *Worker) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != nil && !w.ended {
		w.ended = true
		w.process.kill()
	}
}

// RunningJobs returns the jobs that the worker runs now.
func (w *Worker) RunningJobs() []string {
	var ownEntries Journal
	for _, entry := range w.set.Journal(w.namespace) {
		if entry.UID == w.UID() {
			ownEntries = append(ownEntries, entry)
		}
	}
	return ownEntries.Running()[w.name]
}

// serveStatus serves requests at the pod's address.
func (w *Worker) serveStatus(response http.ResponseWriter, request *http.Request) {
	w.mu.Lock()
	process, mute, override := w.process, w.rejectsRequests, w.statusOverride
	w.mu.Unlock()
	if mute || process == nil {
		http.Error(response, "rejected", http.StatusServiceUnavailable)
		return
	}
	status, err := process.fetchStatus(request)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadGateway)
		return
	}
	if override != nil {
		override(&status)
	}
	_ = json.NewEncoder(response).Encode(status) // the client is gone
}

// fetchStatus forwards a request to the SDK.
func (p *process) fetchStatus(question *http.Request) (WorkerStatus, error) {
	request, err := http.NewRequestWithContext(question.Context(), http.MethodGet, "http://"+p.address+question.URL.Path, nil)
	if err != nil {
		return WorkerStatus{}, fmt.Errorf("get status of worker: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return WorkerStatus{}, fmt.Errorf("get status of worker: %w", err)
	}
	defer response.Body.Close()
	var said WorkerStatus
	return said, json.NewDecoder(response.Body).Decode(&said)
}
