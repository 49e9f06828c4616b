package whole

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/quota/v1/install"
)

// resync is how often a controller looks at all its objects again.
const resync = 5 * time.Minute

// control runs controllers of kube-controller-manager until ctx ends. Without them no pod can be created, since the ServiceAccount
// default of a Namespace is missing; `kubectl delete namespace` waits forever; the roles view, edit and admin are empty; and a
// ResourceQuota shows no use.
func (s *Server) control(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(s.Config)
	if err != nil {
		return err
	}
	shared := informers.NewSharedInformerFactory(client, resync)
	namespaces := shared.Core().V1().Namespaces()
	accounts, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), shared.Core().V1().ServiceAccounts(), namespaces, client,
		serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return err
	}
	discovery := client.Discovery().ServerPreferredNamespacedResources
	deleted := namespace.NewNamespaceController(ctx, client, meta, discovery, namespaces, resync, corev1.FinalizerKubernetes)
	aggregated := clusterroleaggregation.NewClusterRoleAggregation(shared.Rbac().V1().ClusterRoles(), client.RbacV1())
	quotas, started, err := quotasOf(ctx, client, meta, shared)
	if err != nil {
		return err
	}
	shared.Start(ctx.Done())
	close(started)
	go accounts.Run(ctx, 1)
	go deleted.Run(ctx, 1)
	go aggregated.Run(ctx, 1)
	go quotas.Run(ctx, 1)
	go quotas.Sync(ctx, discovery, 10*time.Second)
	return nil
}

// quotasOf returns the controller of ResourceQuotas, and the channel that is closed when the informers run.
func quotasOf(ctx context.Context, client kubernetes.Interface, meta metadata.Interface, shared informers.SharedInformerFactory) (
	*resourcequota.Controller, chan struct{}, error) {
	evaluators, err := install.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(shared.ForResource), shared)
	if err != nil {
		return nil, nil, err
	}
	started, every := make(chan struct{}), func() time.Duration { return resync }
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient: client.CoreV1(), ResourceQuotaInformer: shared.Core().V1().ResourceQuotas(), ResyncPeriod: every,
		Registry: generic.NewRegistry(evaluators.Evaluators()), DiscoveryFunc: client.Discovery().ServerPreferredNamespacedResources,
		IgnoredResourcesFunc: evaluators.IgnoredResources, InformersStarted: started, ReplenishmentResyncPeriod: every,
		InformerFactory: informerfactory.NewInformerFactory(shared, metadatainformer.NewSharedInformerFactory(meta, resync)),
		UpdateFilter:    install.DefaultUpdateFilter(),
	})
	return c, started, err
}
