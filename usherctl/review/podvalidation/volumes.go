package podvalidation

import (
	"fmt"
	"net"
	"reflect"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Volumes returns the problems of volumes.
func Volumes(volumes []corev1.Volume, at *field.Path) field.ErrorList {
	var l list
	names := map[string]bool{}
	for i := range volumes {
		v, at := &volumes[i], at.Index(i)
		l.valid(at.Child("name"), v.Name, validation.IsDNS1123Label)
		l.duplicate(names[v.Name], at.Child("name"), v.Name)
		names[v.Name] = true
		kinds := sources(v)
		l.forbidden(len(kinds) > 1, at, fmt.Sprintf("has the sources %s; keep one", strings.Join(kinds, " and ")))
		l.source(v, at)
		l.disk(&v.VolumeSource, at)
		l.old(&v.VolumeSource, at)
	}
	return field.ErrorList(l)
}

// sources returns the sources of a volume, by their field names. Without one it is an emptyDir.
func sources(v *corev1.Volume) (names []string) {
	all := reflect.ValueOf(v.VolumeSource)
	for i := range all.NumField() {
		if !all.Field(i).IsNil() {
			name, _, _ := strings.Cut(all.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// source adds the problems of the sources that a policy is likely to have.
func (l *list) source(v *corev1.Volume, at *field.Path) {
	if s, at := v.EmptyDir, at.Child("emptyDir"); s != nil {
		l.invalid(s.SizeLimit != nil && s.SizeLimit.Sign() < 0, at.Child("sizeLimit"), s.SizeLimit.String(), "must be 0 or more")
		if s.Mode != nil {
			l.between(at.Child("mode"), int64(*s.Mode), 0, 0o1777)
		}
	}
	if s, at := v.HostPath, at.Child("hostPath"); s != nil {
		l.required(at.Child("path"), s.Path, "the path on the node")
		l.noBacksteps(at.Child("path"), s.Path)
		if s.Type != nil {
			oneOf(l, at.Child("type"), *s.Type, corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory, corev1.HostPathFileOrCreate,
				corev1.HostPathFile, corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev)
		}
	}
	if s, at := v.Secret, at.Child("secret"); s != nil {
		l.required(at.Child("secretName"), s.SecretName, "the name of the Secret")
		l.mode(at.Child("defaultMode"), s.DefaultMode)
		l.user(at.Child("defaultUser"), s.DefaultUser)
		l.items(s.Items, nil, at.Child("items"))
	}
	if s, at := v.ConfigMap, at.Child("configMap"); s != nil {
		l.required(at.Child("name"), s.Name, "the name of the ConfigMap")
		l.mode(at.Child("defaultMode"), s.DefaultMode)
		l.user(at.Child("defaultUser"), s.DefaultUser)
		l.items(s.Items, nil, at.Child("items"))
	}
	if s, at := v.DownwardAPI, at.Child("downwardAPI"); s != nil {
		l.mode(at.Child("defaultMode"), s.DefaultMode)
		l.user(at.Child("defaultUser"), s.DefaultUser)
		l.files(s.Items, nil, at.Child("items"))
	}
	if s := v.Projected; s != nil {
		l.projected(s, at.Child("projected"))
	}
	if s, at := v.CSI, at.Child("csi"); s != nil {
		l.valid(at.Child("driver"), strings.ToLower(s.Driver), validation.IsDNS1123Subdomain)
		l.when(len(s.Driver) > 63, field.TooLong(at.Child("driver"), s.Driver, 63))
		if s.NodePublishSecretRef != nil {
			l.valid(at.Child("nodePublishSecretRef", "name"), s.NodePublishSecretRef.Name, validation.IsDNS1123Subdomain)
		}
	}
	if s, at := v.Ephemeral, at.Child("ephemeral", "volumeClaimTemplate"); s != nil {
		l.claimTemplate(s.VolumeClaimTemplate, at)
	}
	if s, at := v.Image, at.Child("image"); s != nil {
		l.required(at.Child("reference"), s.Reference, "such as registry.example.com/team/data:1.2")
		oneOf(l, at.Child("pullPolicy"), s.PullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	}
	if s := v.ISCSI; s != nil {
		l.iscsi(s, v.Name, at.Child("iscsi"))
	}
}

// disk adds the problems of disks and file systems of others that are still in use.
func (l *list) disk(v *corev1.VolumeSource, at *field.Path) {
	if s := v.PersistentVolumeClaim; s != nil {
		l.required(at.Child("persistentVolumeClaim", "claimName"), s.ClaimName, "the name of the claim")
	}
	if s, at := v.NFS, at.Child("nfs"); s != nil {
		l.required(at.Child("server"), s.Server, "the host")
		l.invalid(!strings.HasPrefix(s.Path, "/"), at.Child("path"), s.Path, "must be an absolute path")
	}
	if s, at := v.FC, at.Child("fc"); s != nil {
		l.invalid((len(s.TargetWWNs) > 0) == (len(s.WWIDs) > 0), at, field.OmitValueType{}, "write one of targetWWNs and wwids")
		l.missing(len(s.TargetWWNs) > 0 && (s.Lun == nil || *s.Lun < 0 || *s.Lun > 255), at.Child("lun"), "targetWWNs need one from 0 to 255")
	}
	if s, at := v.FlexVolume, at.Child("flexVolume"); s != nil {
		l.required(at.Child("driver"), s.Driver, "the name of the driver")
		for key := range s.Options {
			domain, _, _ := strings.Cut(key, "/")
			domain = "." + strings.ToLower(domain)
			l.invalid(strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io"),
				at.Child("options").Key(key), key, "is reserved for Kubernetes")
		}
	}
	if s, at := v.AzureFile, at.Child("azureFile"); s != nil {
		l.required(at.Child("secretName"), s.SecretName, "")
		l.required(at.Child("shareName"), s.ShareName, "")
	}
	if s, at := v.AzureDisk, at.Child("azureDisk"); s != nil {
		l.azureDisk(s, at)
	}
	if s, at := v.CephFS, at.Child("cephfs", "monitors"); s != nil {
		l.missing(len(s.Monitors) == 0, at, "")
	}
	if s, at := v.RBD, at.Child("rbd"); s != nil {
		l.missing(len(s.CephMonitors) == 0, at.Child("monitors"), "")
		l.required(at.Child("image"), s.RBDImage, "")
	}
	if s, at := v.Cinder, at.Child("cinder"); s != nil {
		l.required(at.Child("volumeID"), s.VolumeID, "")
		l.secret(s.SecretRef, at.Child("secretRef"))
	}
	if s, at := v.GCEPersistentDisk, at.Child("gcePersistentDisk"); s != nil {
		l.required(at.Child("pdName"), s.PDName, "")
		l.between(at.Child("partition"), int64(s.Partition), 0, 255)
	}
	if s, at := v.AWSElasticBlockStore, at.Child("awsElasticBlockStore"); s != nil {
		l.required(at.Child("volumeID"), s.VolumeID, "")
		l.between(at.Child("partition"), int64(s.Partition), 0, 255)
	}
}

// secret adds the problem of a reference to a Secret without a name.
func (l *list) secret(r *corev1.LocalObjectReference, at *field.Path) {
	if r != nil {
		l.required(at.Child("name"), r.Name, "the name of the Secret")
	}
}

func (l *list) azureDisk(s *corev1.AzureDiskVolumeSource, at *field.Path) {
	l.required(at.Child("diskName"), s.DiskName, "")
	start := "https://"
	if s.Kind != nil {
		chosen(l, at.Child("kind"), *s.Kind, "", corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk)
		if *s.Kind == corev1.AzureManagedDisk {
			start = "/subscriptions/"
		}
	}
	l.invalid(!strings.HasPrefix(s.DataDiskURI, start), at.Child("diskURI"), s.DataDiskURI, "must begin with "+start)
	if s.CachingMode != nil {
		chosen(l, at.Child("cachingMode"), *s.CachingMode, "",
			corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)
	}
}

// iscsiName matches the names of targets and initiators.
var iscsiName = regexp.MustCompile(`^iqn(?s:.*)iqn\.\d{4}-\d{2}\.[[:alnum:]-.]+:[^,;*&$|\s]+$|` +
	`^iqn\.\d{4}-\d{2}\.[[:alnum:]-.]+:[^,;*&$|\s]+$|^eui.[[:alnum:]]{16}$|^naa.[[:alnum:]]{32}$`)

func (l *list) iscsi(s *corev1.ISCSIVolumeSource, volume string, at *field.Path) {
	const form = "must be a name of iSCSI, such as iqn.2001-04.com.example:storage.disk1"
	l.required(at.Child("targetPortal"), s.TargetPortal, "the address of the target")
	l.invalid(!iscsiName.MatchString(s.IQN), at.Child("iqn"), s.IQN, form)
	l.between(at.Child("lun"), int64(s.Lun), 0, 255)
	l.missing((s.DiscoveryCHAPAuth || s.SessionCHAPAuth) && s.SecretRef == nil, at.Child("secretRef"), "CHAP needs one")
	if s.InitiatorName != nil {
		l.invalid(!iscsiName.MatchString(*s.InitiatorName), at.Child("initiatorName"), *s.InitiatorName, form)
		l.invalid(len(volume)+1+len(s.TargetPortal) > 64, at.Child("targetPortal"), s.TargetPortal,
			"with the name of the volume, must have at most 63 characters")
	}
}

// old adds the problems of sources that Kubernetes no longer mounts, but still stores.
func (l *list) old(v *corev1.VolumeSource, at *field.Path) {
	if s, at := v.GitRepo, at.Child("gitRepo"); s != nil {
		l.required(at.Child("repository"), s.Repository, "")
		l.below(at.Child("directory"), s.Directory)
	}
	if s, at := v.Glusterfs, at.Child("glusterfs"); s != nil {
		l.required(at.Child("endpoints"), s.EndpointsName, "")
		l.required(at.Child("path"), s.Path, "")
	}
	if s, at := v.Flocker, at.Child("flocker"); s != nil {
		l.invalid((s.DatasetName == "") == (s.DatasetUUID == ""), at, field.OmitValueType{}, "write one of datasetName and datasetUUID")
		l.invalid(strings.Contains(s.DatasetName, "/"), at.Child("datasetName"), s.DatasetName, "must not contain '/'")
	}
	if s, at := v.Quobyte, at.Child("quobyte"); s != nil {
		l.required(at.Child("volume"), s.Volume, "")
		l.when(len(s.Tenant) > 64, field.TooLong(at.Child("tenant"), s.Tenant, 64))
		for _, pair := range strings.Split(s.Registry, ",") {
			_, _, err := net.SplitHostPort(pair)
			l.invalid(err != nil, at.Child("registry"), s.Registry, "must be HOST:PORT, or several with commas")
		}
	}
	if s := v.VsphereVolume; s != nil {
		l.required(at.Child("vsphereVolume", "volumePath"), s.VolumePath, "")
	}
	if s := v.PhotonPersistentDisk; s != nil {
		l.required(at.Child("photonPersistentDisk", "pdID"), s.PdID, "")
	}
	if s := v.PortworxVolume; s != nil {
		l.required(at.Child("portworxVolume", "volumeID"), s.VolumeID, "")
	}
	if s, at := v.ScaleIO, at.Child("scaleIO"); s != nil {
		l.required(at.Child("gateway"), s.Gateway, "")
		l.required(at.Child("system"), s.System, "")
		l.required(at.Child("volumeName"), s.VolumeName, "")
	}
	if s, at := v.StorageOS, at.Child("storageos"); s != nil {
		l.valid(at.Child("volumeName"), s.VolumeName, validation.IsDNS1123Label)
		if s.VolumeNamespace != "" {
			l.valid(at.Child("volumeNamespace"), s.VolumeNamespace, validation.IsDNS1123Label)
		}
		l.secret(s.SecretRef, at.Child("secretRef"))
	}
}
