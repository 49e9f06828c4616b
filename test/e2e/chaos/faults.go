package main

import (
	"context"
	"slices"
	"strings"
)

// fault is something that happens to usher, or around it.
type fault struct {
	name, doc string
	free      bool // it must cost no request
	store     bool // the load stores its pods, instead of a dry run
	cause     func(context.Context, *world) error
}

// faults are all faults, in the order of the table.
var faults = []fault{
	{name: "SIGTERM", doc: "a replica is terminated and restarted", free: true, cause: terminate},
	{name: "SIGKILL", doc: "a replica is killed, and restarted after 1 s", cause: kill},
	{name: "roll-out", doc: "each replica is replaced in turn", free: true, cause: rollOut},
	{name: "all-killed", doc: "all replicas are killed, and restarted after 3 s", cause: killAll},
	{name: "no-replica", doc: "the API server, etcd and all replicas end at once and start again, usher 5 s after the others; pods of the system start without it", cause: startWithoutUsher},
	{name: "no-node", doc: "the only node and all replicas are gone for 5 s; a new node joins without usher", cause: loseLastNode},
	{name: "configuration-deleted", doc: "both webhook configurations are deleted, and applied again after 3 s", cause: deleteConfigurations},
	{name: "leaf-rotation", doc: "`usher certs rotate`", free: true, cause: rotate()},
	{name: "ca-rotation", doc: "`usher certs rotate --ca`", free: true, cause: rotate("--ca")},
	{name: "leaf-expiry", doc: "certificates end after 20 s and CAs after a minute, for 70 s", free: true, cause: endOften},
	{name: "ca-expired", doc: "the Secret's CA has ended, while the certificate is valid", cause: endCA},
	{name: "secrets-deleted", doc: "both Secrets are deleted", free: true, cause: deleteSecrets},
	{name: "ca-bundle-emptied", doc: "every caBundle is removed", cause: emptyBundles},
	{name: "clock-jump", doc: "one replica's clock jumps a day ahead, the other's a day back", free: true, cause: jumpClock},
	{name: "api-server-restart", doc: "the API server is restarted", free: true, cause: restartAPIServer},
	{name: "api-server-away", doc: "a replica starts while the API server is stopped for 3 s", free: true, cause: startWithoutAPIServer},
	{name: "etcd-slow", doc: "etcd stands still for 150 ms, forty times; the pods are stored", free: true, store: true, cause: slowEtcd},
	{name: "hanging-webhooks", doc: "three other webhooks, with Ignore and 10 s each, accept connections and do not answer", free: true, cause: hang},
	{name: "disk-full", doc: "the audit log is on a full disk", free: true, cause: fillDisk},
	{name: "cpu-starved", doc: "each replica runs for 10 ms of every 100 ms, as under a CPU limit of 0.1, for 10 s", cause: starve},
	{name: "no-descriptors", doc: "a replica can open no file and no connection for 5 s", cause: exhaustDescriptors},
	{name: "malformed", doc: "a million malformed bodies over TLS", free: true, cause: sendMalformed},
	{name: "big-pods", doc: "reviews of 250 KB pods on 64 connections, for 10 s", free: true, cause: sendBigPods},
}

func find(name string) (fault, bool) {
	i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
	if i < 0 {
		return fault{}, false
	}
	return faults[i], true
}

func allNames() string {
	var names []string
	for _, f := range faults {
		names = append(names, f.name)
	}
	return strings.Join(names, ", ")
}
