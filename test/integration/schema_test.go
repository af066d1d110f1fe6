package integration

import (
	"encoding/json"
	"maps"
	"os"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"
)

// maxCRDBytes is where client-side apply would come too close to the limit on annotations.
const maxCRDBytes = 250_000

var _ = Describe("the schema", func() {
	for _, kind := range kinds {
		It("describes every field of ours in "+kind, func(ctx SpecContext) {
			var silent []string
			walk(rootSchema(ctx, kind), kind, func(path string, schema apiextensionsv1.JSONSchemaProps) {
				if schema.Description == "" && !isElement(path) {
					silent = append(silent, path)
				}
			})
			Expect(silent).To(BeEmpty(), "fields without a description")
		})

		It("publishes those descriptions, which is what kubectl explain reads, for "+kind, func(ctx SpecContext) {
			stored := descriptions(rootSchema(ctx, kind), kind)
			Eventually(func(g Gomega) {
				g.Expect(descriptions(publishedSchema(ctx, g, kind), kind)).To(Equal(stored))
			}).Should(Succeed())
		})

		It("bounds every value of ours in "+kind, func(ctx SpecContext) {
			var endless []string
			walk(rootSchema(ctx, kind), kind, func(path string, schema apiextensionsv1.JSONSchemaProps) {
				if !isBounded(schema) {
					endless = append(endless, path)
				}
			})
			Expect(endless).To(BeEmpty(), "values without a bound, booleans and floats")
		})

		It("[K20] gives "+kind+" a status subresource and the namespace as scope", func(ctx SpecContext) {
			crd, err := storedCRD(ctx, kind)
			Expect(err).NotTo(HaveOccurred())
			Expect(crd.Spec.Scope).To(Equal(apiextensionsv1.NamespaceScoped))
			Expect(crd.Spec.Versions).To(HaveLen(1))
			Expect(crd.Spec.Versions[0].Subresources.Status).NotTo(BeNil())
			Expect(crd.Spec.Names.ShortNames).To(HaveLen(1))
		})
	}

	It("is small enough for client-side apply", func() {
		for _, file := range manifests(crdFolder) {
			asYAML, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			asJSON, err := yaml.YAMLToJSON(asYAML)
			Expect(err).NotTo(HaveOccurred())
			Expect(len(asYAML)).To(BeNumerically("<", maxCRDBytes), file)
			Expect(len(asJSON)).To(BeNumerically("<", maxCRDBytes), file)
		}
	})

	It("has a pod template with neither descriptions nor bounds, but with types", func(ctx SpecContext) {
		agents := rootSchema(ctx, "swarms").Properties["spec"].Properties["agents"]
		template := agents.Items.Schema.Properties["template"]
		for _, part := range template.Properties {
			text, err := json.Marshal(part)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(text)).NotTo(Or(ContainSubstring(`"description":"`), ContainSubstring(`"maxLength":`)))
		}
		Expect(template.Properties["spec"].Properties["containers"].Type).To(Equal("array"))
		Expect(template.Properties["metadata"].Properties).To(HaveKey("labels"))
	})
})

func rootSchema(ctx SpecContext, kind string) apiextensionsv1.JSONSchemaProps {
	crd, err := storedCRD(ctx, kind)
	Expect(err).NotTo(HaveOccurred())
	return *crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// publishedSchema is a kind as the API server's OpenAPI document shows it.
func publishedSchema(ctx SpecContext, g Gomega, kind string) apiextensionsv1.JSONSchemaProps {
	crd, err := storedCRD(ctx, kind)
	g.Expect(err).NotTo(HaveOccurred())
	caller, err := discovery.NewDiscoveryClientForConfig(server)
	g.Expect(err).NotTo(HaveOccurred())
	text, err := caller.RESTClient().Get().AbsPath("/openapi/v3/apis/swarm.io/v1alpha1").DoRaw(ctx)
	g.Expect(err).NotTo(HaveOccurred())

	var document struct {
		Components struct {
			Schemas map[string]apiextensionsv1.JSONSchemaProps `json:"schemas"`
		} `json:"components"`
	}
	g.Expect(json.Unmarshal(text, &document)).To(Succeed())
	return document.Components.Schemas["io.swarm.v1alpha1."+crd.Spec.Names.Kind]
}

func descriptions(schema apiextensionsv1.JSONSchemaProps, kind string) map[string]string {
	found := map[string]string{}
	walk(schema, kind, func(path string, schema apiextensionsv1.JSONSchemaProps) {
		found[path] = schema.Description
	})
	return found
}

// walk visits every schema of ours in a fixed order: not the object's own kind, version and metadata, and nothing
// below a pod template.
func walk(schema apiextensionsv1.JSONSchemaProps, path string, visit func(string, apiextensionsv1.JSONSchemaProps)) {
	visit(path, schema)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if isForeign(path, name) {
			continue
		}
		walk(schema.Properties[name], path+"."+name, visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(*schema.Items.Schema, path+"[]", visit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walk(*schema.AdditionalProperties.Schema, path+"[]", visit)
	}
}

func isForeign(parent, name string) bool {
	atRoot := slices.Contains(kinds, parent)
	return name == "template" || atRoot && slices.Contains([]string{"apiVersion", "kind", "metadata"}, name)
}

func isElement(path string) bool {
	return path[len(path)-1] == ']'
}

// isBounded reports whether a value has a limit. Booleans and floats never have: the API has neither.
func isBounded(schema apiextensionsv1.JSONSchemaProps) bool {
	switch schema.Type {
	case "string":
		return isBoundedString(schema)
	case "integer":
		return schema.Minimum != nil && (schema.Maximum != nil || schema.Format == "int64")
	case "array":
		return schema.MaxItems != nil
	case "object":
		return isBoundedObject(schema)
	case "": // a quantity, or free JSON: its size is limited when it is used
		return schema.MaxLength != nil || isFree(schema)
	}
	return false
}

func isBoundedString(schema apiextensionsv1.JSONSchemaProps) bool {
	return schema.MaxLength != nil || len(schema.Enum) > 0 || schema.Format == "date-time"
}

func isBoundedObject(schema apiextensionsv1.JSONSchemaProps) bool {
	isMap := schema.AdditionalProperties != nil || isFree(schema)
	return !isMap || schema.MaxProperties != nil
}

func isFree(schema apiextensionsv1.JSONSchemaProps) bool {
	return schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
}
