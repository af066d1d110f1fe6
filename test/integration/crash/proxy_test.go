package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/swarm-io/swarm-operator/internal/testkit/apiproxy"
)

// A crashPoint is a write during a scenario. Writes are counted by stage and kind, so that the same write is found again in another run, in
// which a status may have been written once more or less often before it.
type crashPoint struct {
	stage   string
	request string // as describeWrite names it
	nth     int    // of its kind in the stage, from 1
}

func (p crashPoint) String() string {
	return fmt.Sprintf("%s (no. %d in stage %q)", p.request, p.nth, p.stage)
}

// A proxy is between an operator and the API server, and counts the writes of the operator.
type proxy struct {
	address     string
	victim      func()       // kills the operator and waits for its end
	crashPoints []crashPoint // the writes after which that is done

	mu                 sync.Mutex
	stage              string
	writes             []crashPoint
	reachedCrashPoints []crashPoint // of the fatal ones
}

var errKilled = errors.New("the operator is dead")

// listen serves until the context ends.
func listen(ctx context.Context, p *proxy) (err error) {
	p.address, err = apiproxy.Start(ctx, cluster.Config, apiproxy.Options{Response: p.onResponse})
	return err
}

// onResponse is called when the API server has executed a request, and before the operator gets the response. While the operator is being
// killed, no other response passes.
func (p *proxy) onResponse(response *http.Response) error {
	write := describeWrite(response.Request)
	if write == "" || response.StatusCode >= http.StatusMultipleChoices {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	made := crashPoint{stage: p.stage, request: write, nth: 1}
	for slices.Contains(p.writes, made) {
		made.nth++
	}
	p.writes = append(p.writes, made)
	if !slices.Contains(p.crashPoints, made) {
		return nil
	}
	p.reachedCrashPoints = append(p.reachedCrashPoints, made)
	p.victim()
	return errKilled
}

// startStage begins a stage.
func (p *proxy) startStage(stage string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage = stage
}

// recordedWrites returns the writes so far, and the fatal ones among them.
func (p *proxy) recordedWrites() (writes, fatal []crashPoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.writes), slices.Clone(p.reachedCrashPoints)
}

// crashesIn reports whether the operator is to be killed in a stage.
func (p *proxy) crashesIn(stage string) bool {
	return slices.ContainsFunc(p.crashPoints, func(fatal crashPoint) bool { return fatal.stage == stage })
}

// ignoredResources are not part of the cluster's state: Leases, reviews and events.
var ignoredResources = []string{"leases", "tokenreviews", "subjectaccessreviews", "events"}

// describeWrite returns the name of a write, such as "PATCH swarms/ants/status", or "" if the request is not a write that counts.
func describeWrite(request *http.Request) string {
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, request.Method) ||
		request.URL.Query().Has("dryRun") {
		return ""
	}
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	parts = parts[min(len(parts), 2):] // api, version
	if strings.HasPrefix(request.URL.Path, "/apis/") {
		parts = parts[min(len(parts), 1):] // apis, group, version
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) == 0 || slices.Contains(ignoredResources, parts[0]) {
		return ""
	}
	return request.Method + " " + strings.Join(parts, "/")
}
