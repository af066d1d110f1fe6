package pool

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/swarm-io/swarm-operator/internal/testkit/testcluster"
)

// An introspection is the answer of the operator's HTTP API about a pool.
type introspection struct {
	Version int64
	Workers []introspectedWorker
}

type introspectedWorker struct {
	Name         string
	Jobs         []string
	Version      int64
	Acknowledged string
}

// introspect follows docs/reference/http-api.md: it asks through kubectl port-forward, with the token of a service account that may get
// pools in the namespace.
func introspect(ctx context.Context, pool string) introspection {
	GinkgoHelper()
	for _, arguments := range []string{
		"create serviceaccount viewer", "create role viewer --verb=get,list --resource=workerpools.swarm.io",
		"create rolebinding viewer --role=viewer --serviceaccount=" + env.namespace + ":viewer",
	} {
		Expect(kubectl(ctx, append(strings.Fields(arguments), "--namespace", env.namespace)...)).To(ContainSubstring("created"))
	}
	token, err := kubectl(ctx, "create", "token", "viewer", "--namespace", env.namespace)
	Expect(err).NotTo(HaveOccurred())
	url := "http://" + testcluster.PortForward("deployment/swarm-operator", "8082") + "/v1/pools/" + env.namespace + "/" + pool
	var result introspection
	Eventually(func() (err error) { // a right that was just given may not be known yet
		result, err = fetchIntrospection(ctx, url, strings.TrimSpace(token))
		return err
	}).WithContext(ctx).Should(Succeed())
	return result
}

func fetchIntrospection(ctx context.Context, url, token string) (result introspection, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return result, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return result, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return result, fmt.Errorf("%s: %s: %w", response.Status, text, err)
	}
	return result, json.Unmarshal(text, &result)
}
