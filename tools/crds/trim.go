package main

// maxQuantityLength leaves room for any sensible quantity. controller-gen cannot write it: to it, a quantity is not text.
const maxQuantityLength = 32

// bounds are the keywords that limit a value, as opposed to those that describe its form.
var bounds = []string{
	"maxItems", "minItems", "maxLength", "minLength", "maximum", "minimum", "maxProperties", "minProperties", "pattern",
	"x-kubernetes-validations",
}

// trim walks a schema of ours. Property names differ from keywords by the level they stand on, so that a field may
// be called description.
func trim(schema map[string]any) {
	if isQuantity, _ := schema["x-kubernetes-int-or-string"].(bool); isQuantity {
		schema["maxLength"] = maxQuantityLength
	}
	for name, child := range properties(schema) {
		if name == "template" {
			trimTemplate(child)
			continue
		}
		trim(child)
	}
	for _, child := range elements(schema) {
		trim(child)
	}
}

// trimTemplate keeps the form of a pod template and its own description, which is ours. Ephemeral containers go, since
// no pod may start with one: this way the template is refused, instead of each pod made from it.
func trimTemplate(template map[string]any) {
	description := template["description"]
	strip(template)
	template["description"] = description
	if pod := properties(template)["spec"]; pod != nil {
		delete(pod["properties"].(map[string]any), "ephemeralContainers")
	}
}

// strip takes descriptions and bounds off a schema and everything below it. The API server checks the pods made from
// the template anyway, and with them the CRD would be three times too large.
func strip(schema map[string]any) {
	delete(schema, "description")
	for _, keyword := range bounds {
		delete(schema, keyword)
	}
	for _, child := range properties(schema) {
		strip(child)
	}
	for _, child := range elements(schema) {
		strip(child)
	}
}

// properties are the named children of an object's schema.
func properties(schema map[string]any) map[string]map[string]any {
	named, _ := schema["properties"].(map[string]any)
	children := make(map[string]map[string]any, len(named))
	for name, child := range named {
		if child, ok := child.(map[string]any); ok {
			children[name] = child
		}
	}
	return children
}

// elements are the unnamed children: what a list or a map holds.
func elements(schema map[string]any) []map[string]any {
	var children []map[string]any
	for _, keyword := range []string{"items", "additionalProperties"} {
		if child, ok := schema[keyword].(map[string]any); ok {
			children = append(children, child)
		}
	}
	return children
}
