// Package poddefaults fills in what the API server and its own plug-ins set in pods and templates of pods, after the defaults of
// core/v1.
package poddefaults

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Container fills in the fields of a container.
func Container(c *corev1.Container) {
	Fill(&c.ImagePullPolicy, pullPolicy(c.Image))
	Fill(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	Fill(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		Fill(&c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			fillFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				Point(&from.FileKeyRef.Optional, false)
			}
		}
	}
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		fillProbe(probe)
	}
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		fillGet(c.Lifecycle.PostStart.HTTPGet)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		fillGet(c.Lifecycle.PreStop.HTTPGet)
	}
}

// pullPolicy returns the pull policy that follows from an image.
func pullPolicy(image string) corev1.PullPolicy {
	if name := image[strings.LastIndex(image, "/")+1:]; strings.HasSuffix(name, ":latest") || !strings.ContainsAny(name, ":@") {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func fillFieldRef(r *corev1.ObjectFieldSelector) {
	if r != nil {
		Fill(&r.APIVersion, "v1")
	}
}

func fillProbe(p *corev1.Probe) {
	if p == nil {
		return
	}
	Fill(&p.TimeoutSeconds, 1)
	Fill(&p.PeriodSeconds, 10)
	Fill(&p.SuccessThreshold, 1)
	Fill(&p.FailureThreshold, 3)
	fillGet(p.HTTPGet)
	if p.GRPC != nil {
		Point(&p.GRPC.Service, "")
	}
}

func fillGet(g *corev1.HTTPGetAction) {
	if g != nil {
		Fill(&g.Path, "/")
		Fill(&g.Scheme, corev1.URISchemeHTTP)
	}
}

// Volume fills in the fields of a volume.
func Volume(v *corev1.VolumeSource) {
	const mode = 0o644
	switch {
	case *v == corev1.VolumeSource{}:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case v.Secret != nil:
		Point(&v.Secret.DefaultMode, mode)
	case v.ConfigMap != nil:
		Point(&v.ConfigMap.DefaultMode, mode)
	case v.DownwardAPI != nil:
		Point(&v.DownwardAPI.DefaultMode, mode)
		fillFiles(v.DownwardAPI.Items)
	case v.HostPath != nil:
		Point(&v.HostPath.Type, corev1.HostPathUnset)
	case v.Projected != nil:
		Point(&v.Projected.DefaultMode, mode)
		fillProjected(v.Projected.Sources)
	case v.Image != nil:
		Fill(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		Point(&v.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	default:
		fillRemote(v)
	}
}

func fillProjected(sources []corev1.VolumeProjection) {
	for _, s := range sources {
		if s.DownwardAPI != nil {
			fillFiles(s.DownwardAPI.Items)
		}
		if s.ServiceAccountToken != nil {
			Point(&s.ServiceAccountToken.ExpirationSeconds, 3600)
		}
	}
}

func fillFiles(items []corev1.DownwardAPIVolumeFile) {
	for _, item := range items {
		fillFieldRef(item.FieldRef)
	}
}

// fillRemote fills in what storage elsewhere is called by.
func fillRemote(v *corev1.VolumeSource) {
	if v.ISCSI != nil {
		Fill(&v.ISCSI.ISCSIInterface, "default")
	}
	if v.RBD != nil {
		Fill(&v.RBD.RBDPool, "rbd")
		Fill(&v.RBD.RadosUser, "admin")
		Fill(&v.RBD.Keyring, "/etc/ceph/keyring")
	}
	azureDisk(v.AzureDisk)
	if v.ScaleIO != nil {
		Fill(&v.ScaleIO.StorageMode, "ThinProvisioned")
		Fill(&v.ScaleIO.FSType, "xfs")
	}
}

// azureDisk fills in the fields of such a volume; nil is left alone.
func azureDisk(d *corev1.AzureDiskVolumeSource) {
	if d != nil {
		Point(&d.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		Point(&d.FSType, "ext4")
		Point(&d.ReadOnly, false)
		Point(&d.Kind, corev1.AzureSharedBlobDisk)
	}
}

// LimitRange fills in what the API server sets in a LimitRange: limits of containers from the maximum, and requests from limits, else
// from the minimum.
func LimitRange(r *corev1.LimitRange) {
	for i := range r.Spec.Limits {
		of := &r.Spec.Limits[i]
		if of.Type == corev1.LimitTypeContainer {
			of.Default = with(of.Max, of.Default)
			of.DefaultRequest = with(with(of.Min, of.Default), of.DefaultRequest)
		}
	}
}

// with returns resources with others, which win.
func with(all, others corev1.ResourceList) corev1.ResourceList {
	both := corev1.ResourceList{}
	maps.Copy(both, all)
	maps.Copy(both, others)
	return both
}

// Fill sets a field that is empty.
func Fill[T comparable](field *T, value T) {
	var empty T
	if *field == empty {
		*field = value
	}
}

// Point sets a field that is absent.
func Point[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
