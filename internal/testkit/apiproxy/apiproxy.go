// Package apiproxy is a reverse proxy in front of the API server of a test cluster. Tests put it between one client and the API server to
// observe, fail or hold back that client's requests.
//
// A client that connects acts as the user of the cluster: the proxy itself has no authentication, and listens on loopback only.
package apiproxy

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Options holds the hooks of a test. Every hook is optional and may be called concurrently.
type Options struct {
	// Request is called before a request is forwarded, and may change its headers. A status other than zero is sent to the client instead
	// of forwarding the request.
	Request func(*http.Request) (status int)
	// Response is called when the API server has answered, before the client gets the answer. After an error the client gets 502.
	Response func(*http.Response) error
}

// Start serves until the context ends, and returns the address.
func Start(ctx context.Context, cluster *rest.Config, options Options) (address string, err error) {
	target, _, err := rest.DefaultServerUrlFor(cluster)
	if err != nil {
		return "", fmt.Errorf("start proxy: %w", err)
	}
	transport, err := rest.TransportFor(cluster)
	if err != nil {
		return "", fmt.Errorf("start proxy: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("start proxy: %w", err)
	}
	discardLog := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1, // watches stream
		ModifyResponse: options.Response,
		ErrorHandler:   func(answer http.ResponseWriter, _ *http.Request, _ error) { answer.WriteHeader(http.StatusBadGateway) },
		ErrorLog:       discardLog,
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: discardLog, Handler: intercept(options.Request, proxy)}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return listener.Addr().String(), nil
}

func intercept(hook func(*http.Request) int, next http.Handler) http.Handler {
	if hook == nil {
		return next
	}
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if status := hook(request); status != 0 {
			http.Error(response, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(response, request)
	})
}

// Kubeconfig writes a kubeconfig for the proxy, and returns its path.
func Kubeconfig(folder, address string) (string, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: "http://" + address}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	config.CurrentContext = "proxy"
	path := filepath.Join(folder, "kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}
