package kubetest

import "context"

// account is the user name of the ServiceAccount of usher's pods.
const account = "system:serviceaccount:usher:usher"

// Watching returns options with which usher also watches the cluster, as that account and with the rights that
// `usher webhooks --rbac` prints.
func (c *Cluster) Watching(o UsherOptions) (UsherOptions, error) {
	kubeconfig, err := c.Kubeconfig(account, "system:serviceaccounts", "system:serviceaccounts:usher")
	o.Flags = append([]string{"--cluster=api", "--kubeconfig=" + kubeconfig}, o.Flags...)
	before := o.Before
	o.Before = func(ctx context.Context, u *Usher) error {
		if err := u.grant(ctx); err != nil || before == nil {
			return err
		}
		return before(ctx, u)
	}
	return o, err
}

// grant creates usher's rights.
func (u *Usher) grant(ctx context.Context) error {
	role, err := u.Run(ctx, "webhooks", "--rbac")
	if err != nil {
		return err
	}
	for _, file := range []string{"clusterrole.yaml", "clusterrolebinding.yaml"} {
		watch, err := ReadFile("deploy/base/" + file)
		if err != nil {
			return err
		}
		role += "---\n" + watch
	}
	if err := u.cluster.Apply(ctx, role); err != nil {
		return err
	}
	return u.cluster.Apply(ctx, `{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "usher"},
		"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "usher"},
		"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "`+account+`"}]}`)
}
