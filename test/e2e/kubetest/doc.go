// Package kubetest runs a real Kubernetes control plane and usher, all on loopback and in one temporary directory.
//
//	cluster, err := kubetest.Start(ctx, kubetest.Options{})                       // etcd and the API server: 3 s
//	defer cluster.Stop()
//	usher, err := cluster.StartUsher(ctx, kubetest.UsherOptions{Replicas: 2})     // built from the tree, real TLS
//	err = cluster.ApplyDeploy(ctx, "deploy/base")                                 // what a user applies
//	err = usher.Register(ctx)                                                     // returns when usher is called
//	out, err := cluster.Kubectl(ctx, "apply", "-f", "deploy/demo/offensive-pod.yaml")
//	node, err := cluster.Node("n1").Patch(ctx, "/api/v1/nodes/n1/status", kubetest.StrategicPatch, body)
//	events, err := cluster.Audit(kubetest.Of("patch", "nodes/status", "n1"))
//
// ctx limits each call. It does not end what was started: Stop does. If this process ends in any other way, even by
// SIGKILL, a second process cleans up. The package does not need *testing.T except in main.go and seed.go, so that a demo can
// use it too. After a failure, Logs and LogsOf return the last lines of each process.
//
// The Kubernetes programs come from package binaries; this package builds only usher.
//
// Differences from a real cluster: webhooks are called by URL instead of through a Service, pods need no service
// account, and etcd does not sync its files. All audit events are logged, for pods and nodes with the patches of
// webhooks.
//
//	cluster.go   start, stop and restart the control plane
//	identity.go  the CA, certificates, kubeconfigs
//	client.go    plain HTTP to the API server, as any identity
//	kubectl.go   kubectl and other commands
//	audit.go     read the audit log
//	history.go   read etcd's history: every stored change, in order
//	hollow.go    nodes: kubelets with a fake container runtime
//	usher.go     the usher processes
//	balancer.go  the load balancer for them, in place of a Service
//	network.go   a network of the tests' own, with an address that EndpointSlices take, and no names
//	deploy.go    the shipped manifests and webhook configurations
//	process.go   a process and its log
//	seed.go      random numbers that can be drawn again
//	sandbox.go   the directory, and the reaper that cleans up
package kubetest
