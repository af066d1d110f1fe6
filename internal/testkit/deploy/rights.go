// Package deploy reads what deploy/kustomize installs, for the tests that compare it with the documentation and with a cluster. It never
// changes a file.
package deploy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// Everywhere is the scope of a ClusterRole that is bound for the whole cluster.
const Everywhere = "everywhere"

// A Right is a permission for one kind of object, in the format of `kubectl auth can-i --list`.
type Right struct {
	Scope    string // everywhere, or a namespace
	Resource string // resource.group/subresource, and the names it is bound to
	Verbs    string // sorted
}

func (r Right) String() string { return fmt.Sprintf("| %s | %s | %s |", r.Scope, r.Resource, r.Verbs) }

// A Role is a Role or a ClusterRole; a Role has a namespace.
type Role = rbacv1.Role

// Roles returns the roles in a YAML file of any objects.
func Roles(text []byte) ([]Role, error) {
	var roles []Role
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var role Role
		if err := yaml.Unmarshal(document, &role); err != nil {
			return nil, fmt.Errorf("read role: %w", err)
		}
		if strings.HasSuffix(role.Kind, "Role") {
			roles = append(roles, role)
		}
	}
	return roles, nil
}

// RightsOf returns the rights that roles grant, sorted.
func RightsOf(roles []Role) []Right {
	var rights []Right
	for _, role := range roles {
		where := Everywhere
		if role.Namespace != "" {
			where = role.Namespace
		}
		rights = append(rights, Split(where, role.Rules)...)
	}
	return SortRights(rights)
}

// Split returns a right for each resource that the rules name.
func Split(scope string, rules []rbacv1.PolicyRule) []Right {
	var rights []Right
	for _, rule := range rules {
		verbs := strings.Join(slices.Sorted(slices.Values(rule.Verbs)), ", ")
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				rights = append(rights, Right{Scope: scope, Resource: resourceName(group, resource, rule.ResourceNames), Verbs: verbs})
			}
		}
		for _, path := range rule.NonResourceURLs {
			rights = append(rights, Right{Scope: scope, Resource: path, Verbs: verbs})
		}
	}
	return rights
}

func resourceName(group, resource string, names []string) string {
	resource, name, divided := strings.Cut(resource, "/")
	if group != "" {
		resource += "." + group
	}
	if divided {
		resource += "/" + name
	}
	return strings.Join(append([]string{resource}, names...), " ")
}

// SortRights sorts rights in the order of the table, and removes duplicates.
func SortRights(rights []Right) []Right {
	slices.SortFunc(rights, func(a, b Right) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(rights)
}

// DocumentedRights returns the rights in the table of docs/reference/rbac.md, each with its reason.
func DocumentedRights(text string) map[Right]string {
	reasons := map[Right]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[0], "---") {
			continue
		}
		for n := range cells {
			cells[n] = strings.TrimSpace(strings.ReplaceAll(cells[n], "`", ""))
		}
		if cells[0] != "where" {
			reasons[Right{Scope: cells[0], Resource: cells[1], Verbs: cells[2]}] = cells[3]
		}
	}
	return reasons
}
