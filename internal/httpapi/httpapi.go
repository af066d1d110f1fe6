// Package httpapi answers queries about pools, swarms and tasks over HTTP, as JSON. openapi.json describes it.
//
// It promises that a request changes nothing; that it shows callers only what they can see with kubectl, since every path under /v1
// requires a token, which the API server verifies, and the right to get or list that kind; that the same state gives the same bytes;
// and that every answer is bounded and every rejection is one line with the reason. The jobs of workers count as part of their pool.
//
// It shows the content of the operator's cache, which may be slightly stale. It never logs a request, and never stores, logs or
// repeats a token.
package httpapi

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/swarm-io/swarm-operator/internal/limit"
)

const (
	// longest is how long an answer may take to compute. It is sent in what is left of longestExchange.
	longest, longestExchange = 20 * time.Second, 30 * time.Second
	// mostReadings limits concurrent reads: a list of everything takes memory.
	mostReadings = 4
	// mostHeader has room for the longest token.
	mostHeader = 32 << 10
)

//go:embed openapi.json
var description []byte

// Config configures the API.
type Config struct {
	Reader     client.Reader
	Namespaces []string // that Reader has; none: all of them
	Judge      Judge
	Log        *slog.Logger // logs panics only
	Refusals   *limit.Refusals
}

// api is the state that the routes share.
type api struct {
	reader     client.Reader
	namespaces []string
	guard      *guard
	readings   turnstile
}

// A route is a path under /v1, the right that it needs, and the function that finds what it shows.
type route struct {
	path, verb, resource string
	find                 func(context.Context, question) (any, error)
}

func (a *api) routes() []route {
	return []route{
		{"/v1/pools", "list", "workerpools", a.pools},
		{"/v1/pools/:namespace/:name", "get", "workerpools", a.pool},
		{"/v1/pools/:namespace/:name/workers/:worker", "get", "workerpools", a.worker},
		{"/v1/swarms", "list", "swarms", a.swarms},
		{"/v1/tasks", "list", "tasks", a.tasks},
	}
}

// New returns the handler for all paths.
func New(config Config) http.Handler { return engine(config) }

// NewServer limits what a slow or hostile caller can use.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: longestExchange, IdleTimeout: time.Minute, MaxHeaderBytes: mostHeader,
	}
}

func engine(config Config) *gin.Engine {
	gin.SetMode(gin.ReleaseMode) // otherwise it prints every route
	paths := gin.New()
	paths.HandleMethodNotAllowed, paths.RedirectTrailingSlash = true, false
	paths.Use(recovery(config.Log))
	paths.NoRoute(func(c *gin.Context) {
		fail(c, refuse(http.StatusNotFound, "there is nothing at %s: see /openapi.json", c.Request.URL.Path))
	})
	paths.NoMethod(func(c *gin.Context) {
		fail(c, refuse(http.StatusMethodNotAllowed, "%s is not allowed: this API only reads", c.Request.Method))
	})
	paths.GET("/healthz", func(c *gin.Context) { c.PureJSON(http.StatusOK, gin.H{"status": "ok"}) })
	paths.GET("/openapi.json", func(c *gin.Context) { c.Data(http.StatusOK, "application/json; charset=utf-8", description) })
	shared := &api{reader: config.Reader, namespaces: config.Namespaces, guard: newGuard(config.Judge, config.Refusals), readings: make(turnstile, mostReadings)}
	for _, to := range shared.routes() {
		paths.GET(to.path, shared.serve(to))
	}
	return paths
}

func (a *api) serve(to route) gin.HandlerFunc {
	return func(c *gin.Context) {
		ctx, cancel := context.WithTimeout(c.Request.Context(), longest)
		defer cancel()
		found, err := a.answer(ctx, to, c)
		if err != nil {
			fail(c, err)
			return
		}
		c.Header("Cache-Control", "no-store")
		c.PureJSON(http.StatusOK, found)
	}
}

// answer authenticates and authorizes the caller before anything else.
func (a *api) answer(ctx context.Context, to route, c *gin.Context) (found any, err error) {
	namespace, name := c.Param("namespace"), c.Param("name")
	if to.verb == "list" {
		namespace = c.Query("namespace")
	}
	if err := a.guard.admit(ctx, credentialOf(c.Request), right{to.verb, to.resource, namespace, name}); err != nil {
		return nil, err
	}
	if !a.knows(namespace) {
		return nil, refuse(http.StatusNotFound, "namespace %q is not one of this operator's: %s", namespace, strings.Join(a.namespaces, ", "))
	}
	part, err := pageOf(c.Query("limit"), c.Query("continue"))
	if err != nil {
		return nil, err
	}
	asked := question{namespace: namespace, name: name, worker: c.Param("worker"), swarm: c.Query("swarm"), page: part}
	err = a.readings.pass(ctx, func() (err error) {
		found, err = to.find(ctx, asked)
		return err
	})
	return found, err
}

// knows reports whether the reader has a namespace; "" stands for all of them.
func (a *api) knows(namespace string) bool {
	return namespace == "" || len(a.namespaces) == 0 || slices.Contains(a.namespaces, namespace)
}

// A question is the query of an authorized caller.
type question struct {
	namespace, name, worker, swarm string
	page                           page
}

// recovery confines a panic to its request.
func recovery(log *slog.Logger) gin.HandlerFunc {
	return gin.CustomRecoveryWithWriter(nil, func(c *gin.Context, cause any) {
		log.Error("panic in the HTTP API", "path", c.FullPath(), "err", fmt.Sprint(cause), "stack", string(debug.Stack()))
		fail(c, refuse(http.StatusInternalServerError, "a mistake in the operator: its log has more"))
	})
}
