package main

import "testing"

const described = `
spec:
  names: {kind: Thing}
  versions:
  - schema:
      openAPIV3Schema:
        description: |-
          Thing is one
          of many.

          More about it.
        x-kubernetes-validations: [{rule: "true", message: a thing stays}]
        properties:
          spec:
            required: [size]
            properties:
              size: {type: integer, minimum: 1, maximum: 3.0, description: Size | number of parts.}
              mode: {type: string, enum: [Some, All], default: All}
              parts:
                type: array
                maxItems: 2
                items:
                  x-kubernetes-validations: [{rule: "true", message: a part is small}]
                  properties:
                    name: {type: string, minLength: 1, maxLength: 63}
              template: {type: object, properties: {spec: {type: object, properties: {containers: {type: array}}}}}
          status:
            properties:
              limits: {type: object, additionalProperties: {x-kubernetes-int-or-string: true}}
`

func TestReferenceListsTheFieldsOfAKind(t *testing.T) {
	_, crd, err := finish([]byte(described))
	if err != nil {
		t.Fatal(err)
	}
	const want = "# Fields of the kinds\n\n" +
		"Generated from the CRDs by `make generate`. Fields that must be set are in bold. Pod templates have the fields of Kubernetes.\n\n" +
		"## Thing\n\nThing is one of many.\n\n" +
		"| field | form | meaning |\n|---|---|---|\n" +
		"| `spec.mode` | `Some`, `All`; default `All` |  |\n" +
		"| `spec.parts` | list, at most 2 items |  |\n" +
		"| `spec.parts[].name` | string, 1 to 63 characters |  |\n" +
		"| **`spec.size`** | integer, 1 to 3 | Size \\| number of parts. |\n" +
		"| `spec.template` | object |  |\n" +
		"| `status.limits` | map |  |\n" +
		"\nThe API server refuses, among others:\n\n- a part is small\n- a thing stays\n"
	if got := reference([]kind{kindOf(crd)}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
