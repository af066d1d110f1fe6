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

// UID is that of the pod.
func (w *Worker) UID() string { return string(w.uid) }

// ConfigVersion is the version that the worker's files ask for. They get it from the pod's annotation, and later than the API server.
func (w *Worker) ConfigVersion() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.configVersion
}

// PauseFileUpdates keeps back lists: the annotation arrives, the file does not.
func (w *Worker) PauseFileUpdates() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.volume.updatesPaused = true
}

// ResumeFileUpdates brings what was kept back.
func (w *Worker) ResumeFileUpdates() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.volume.updatesPaused = false
	w.logError(w.volume.sync())
}

// RejectRequests has the worker do its work and answer no requests.
func (w *Worker) RejectRequests() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rejectsRequests = true
}

// OverrideStatus changes what the worker answers; nil for the truth.
func (w *Worker) OverrideStatus(change func(*WorkerStatus)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.statusOverride = change
}

// Restart kills the worker's process and starts another on the files that there are, as the kubelet restarts a container.
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

// CrashAfterNextStop restarts the worker's process when it has stopped the next job, before it can acknowledge that.
func (w *Worker) CrashAfterNextStop() { w.crashAfterStop.Store(true) }

// OutlivePod has the worker go on when its pod is deleted, as on an unreachable node, and lets the pod go without it.
func (w *Worker) OutlivePod() { w.outlivesPod.Store(true) }

// SetDisconnected cuts the worker off from the API server, or ends that.
func (w *Worker) SetDisconnected(cut bool) { w.disconnected.Store(cut) }

// Kill ends the worker's process as SIGKILL does, and none follows.
func (w *Worker) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != nil && !w.ended {
		w.ended = true
		w.process.kill()
	}
}

// RunningJobs are the jobs that the worker runs now.
func (w *Worker) RunningJobs() []string {
	var ownEntries Journal
	for _, entry := range w.set.Journal(w.namespace) {
		if entry.UID == w.UID() {
			ownEntries = append(ownEntries, entry)
		}
	}
	return ownEntries.Running()[w.name]
}

// serveStatus is what is heard at the pod's address.
func (w *Worker) serveStatus(response http.ResponseWriter, request *http.Request) {
	w.mu.Lock()
	process, mute, override := w.process, w.rejectsRequests, w.statusOverride
	w.mu.Unlock()
	if mute || process == nil {
		http.Error(response, "mute", http.StatusServiceUnavailable)
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

// fetchStatus passes a question on to the SDK.
func (p *process) fetchStatus(question *http.Request) (WorkerStatus, error) {
	request, err := http.NewRequestWithContext(question.Context(), http.MethodGet, "http://"+p.address+question.URL.Path, nil)
	if err != nil {
		return WorkerStatus{}, fmt.Errorf("ask the worker: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return WorkerStatus{}, fmt.Errorf("ask the worker: %w", err)
	}
	defer response.Body.Close()
	var said WorkerStatus
	return said, json.NewDecoder(response.Body).Decode(&said)
}
