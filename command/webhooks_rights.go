package command

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"usher.dev/usher/certs/rotation"
)

// certificateRights are the rights of usher serve --certs=managed, with their bindings to usher's service account, or
// to another user.
func certificateRights(namespace, user string) []any {
	const api = rbacv1.GroupName
	meta := func(name, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/name": "usher"}}
	}
	kind := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind}
	}
	const secrets, bundles = "usher-certs", rotation.BundleManager
	who := []rbacv1.Subject{subject(namespace, user)}
	return []any{
		rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta(secrets, namespace), Rules: rotation.SecretRights()},
		rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: meta(secrets, namespace), Subjects: who,
			RoleRef: rbacv1.RoleRef{APIGroup: api, Kind: "Role", Name: secrets}},
		rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta(bundles, ""), Rules: rotation.ConfigurationRights()},
		rbacv1.ClusterRoleBinding{TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta(bundles, ""), Subjects: who,
			RoleRef: rbacv1.RoleRef{APIGroup: api, Kind: "ClusterRole", Name: bundles}},
	}
}

func subject(namespace, user string) rbacv1.Subject {
	if user == "" {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "usher"}
	}
	if account, is := strings.CutPrefix(user, "system:serviceaccount:"); is {
		namespace, name, _ := strings.Cut(account, ":")
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}
}
