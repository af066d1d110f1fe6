package gang

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// patience is the timeout of a request.
const patience = 5 * time.Second

// Answer is what a worker reports about itself.
type Answer struct {
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
	return w.floor
}

// Hold keeps back lists: the annotation arrives, the file does not.
func (w *Worker) Hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.volume.held = true
}

// Release brings what was kept back.
func (w *Worker) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.volume.held = false
	w.report(w.volume.catchUp())
}

// Mute has the worker do its work and answer no requests.
func (w *Worker) Mute() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = true
}

// Lie changes what the worker answers; nil for the truth.
func (w *Worker) Lie(change func(*Answer)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lie = change
}

// Restart kills the worker's process and starts another on the files that there are, as the kubelet restarts a container.
func (w *Worker) Restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.process == nil {
		return
	}
	w.process.kill()
	next, err := w.spawn(context.Background())
	w.report(err)
	w.process = next
}

// CrashAfterStop restarts the worker's process when it has stopped the next job, before it can acknowledge that.
func (w *Worker) CrashAfterStop() { w.fragile.Store(true) }

// Outlive has the worker go on when its pod is deleted, as on an unreachable node, and lets the pod go without it.
func (w *Worker) Outlive() { w.outlives.Store(true) }

// Sever cuts the worker off from the API server, or ends that.
func (w *Worker) Sever(cut bool) { w.severed.Store(cut) }

// Kill ends the worker's process as SIGKILL does, and none follows.
func (w *Worker) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != nil && !w.over {
		w.over = true
		w.process.kill()
	}
}

// Runs are the jobs that the worker runs now.
func (w *Worker) Runs() []string {
	var own Journal
	for _, entry := range w.gang.Journal(w.namespace) {
		if entry.UID == w.UID() {
			own = append(own, entry)
		}
	}
	return own.Running()[w.name]
}

// answer is what is heard at the pod's address.
func (w *Worker) answer(response http.ResponseWriter, request *http.Request) {
	w.mu.Lock()
	process, mute, lie := w.process, w.mute, w.lie
	w.mu.Unlock()
	if mute || process == nil {
		http.Error(response, "mute", http.StatusServiceUnavailable)
		return
	}
	said, err := process.ask(request)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadGateway)
		return
	}
	if lie != nil {
		lie(&said)
	}
	_ = json.NewEncoder(response).Encode(said) // the client is gone
}

// ask passes a question on to the SDK.
func (p *process) ask(question *http.Request) (Answer, error) {
	request, err := http.NewRequestWithContext(question.Context(), http.MethodGet, "http://"+p.inside+question.URL.Path, nil)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the worker: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the worker: %w", err)
	}
	defer response.Body.Close()
	var said Answer
	return said, json.NewDecoder(response.Body).Decode(&said)
}
