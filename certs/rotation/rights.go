package rotation

import rbacv1 "k8s.io/api/rbac/v1"

// SecretRights are the rights of a keeper in the namespace of its Service. Creating by server-side apply is the verb
// create with a name, so that no right to create other Secrets is needed.
func SecretRights() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{CASecret, TLSSecret},
		Verbs: []string{"get", "create", "patch", "update"}}}
}

// ConfigurationRights are the rights of a keeper in the cluster.
func ConfigurationRights() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: Collections,
		ResourceNames: []string{Configuration}, Verbs: []string{"get", "update"}}}
}
