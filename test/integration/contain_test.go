package integration

import (
	"fmt"

	"github.com/onsi/gomega/gcustom"
	gomegatypes "github.com/onsi/gomega/types"
)

// contain matches a stored value that has everything of the wanted one. Additions of the API server are no
// difference; an element too few or too many is.
func contain(wanted any) gomegatypes.GomegaMatcher {
	return gcustom.MakeMatcher(func(stored any) (bool, error) {
		if where := missing(stored, wanted, "spec"); where != "" {
			return false, fmt.Errorf("%s", where)
		}
		return true, nil
	})
}

// missing returns where stored falls short of wanted, or nothing.
func missing(stored, expected any, path string) string {
	switch expected := expected.(type) {
	case map[string]any:
		return missingFields(stored, expected, path)
	case []any:
		return missingElements(stored, expected, path)
	}
	if fmt.Sprint(stored) != fmt.Sprint(expected) { // numbers come as int64 from one side and float64 from the other
		return fmt.Sprintf("%s is %v, wanted %v", path, stored, expected)
	}
	return ""
}

func missingFields(stored any, expected map[string]any, path string) string {
	fields, ok := stored.(map[string]any)
	if !ok {
		return fmt.Sprintf("%s is %v, wanted an object", path, stored)
	}
	for name, value := range expected {
		if where := missing(fields[name], value, path+"."+name); where != "" {
			return where
		}
	}
	return ""
}

func missingElements(stored any, expected []any, path string) string {
	elements, ok := stored.([]any)
	if !ok || len(elements) != len(expected) {
		return fmt.Sprintf("%s is %v, wanted %d elements", path, stored, len(expected))
	}
	for i, value := range expected {
		if where := missing(elements[i], value, fmt.Sprintf("%s[%d]", path, i)); where != "" {
			return where
		}
	}
	return ""
}
