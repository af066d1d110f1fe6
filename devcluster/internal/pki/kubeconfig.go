package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Server is one API server as a kubeconfig names it.
type Server struct{ Context, URL string }

// Kubeconfig writes a kubeconfig at path by which the holder of pair reaches the servers; the first one is current.
// Everything is written into the file itself, so that it still works when it was copied elsewhere.
func (a *Authority) Kubeconfig(path, user string, pair Pair, servers ...Server) error {
	config := api.NewConfig()
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificate: pair.Cert, ClientKey: pair.Key}
	for _, server := range servers {
		config.Clusters[server.Context] = &api.Cluster{Server: server.URL, CertificateAuthority: a.CA()}
		config.Contexts[server.Context] = &api.Context{Cluster: server.Context, AuthInfo: user}
	}
	config.CurrentContext = servers[0].Context
	if err := api.FlattenConfig(config); err != nil {
		return fmt.Errorf("gather the kubeconfig of %s: %w", user, err)
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("write the kubeconfig of %s: %w", user, err)
	}
	return nil
}
