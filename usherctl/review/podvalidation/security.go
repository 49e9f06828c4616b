package podvalidation

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func isTrue(b *bool) bool { return b != nil && *b }

// securityContext adds the problems of a container's security context. Whether a container may be privileged is the
// cluster's, and procMount Unmasked, Windows and Linux are the pod's.
func (l *list) securityContext(s *corev1.SecurityContext, at *field.Path) {
	if s == nil {
		return
	}
	if s.RunAsUser != nil {
		l.between(at.Child("runAsUser"), *s.RunAsUser, 0, 1<<31-1)
	}
	if s.RunAsGroup != nil {
		l.between(at.Child("runAsGroup"), *s.RunAsGroup, 0, 1<<31-1)
	}
	if s.ProcMount != nil {
		chosen(l, at.Child("procMount"), *s.ProcMount, "write Default, or leave it out", corev1.DefaultProcMount, corev1.UnmaskedProcMount)
	}
	if e := s.AllowPrivilegeEscalation; e != nil && !*e {
		escalates := isTrue(s.Privileged) || s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN")
		l.invalid(escalates, at.Child("allowPrivilegeEscalation"), false, "must be true with privileged, and with the capability CAP_SYS_ADMIN")
	}
	l.seccomp(s.SeccompProfile, at.Child("seccompProfile"))
	l.appArmor(s.AppArmorProfile, at.Child("appArmorProfile"))
	l.windows(s.WindowsOptions, at.Child("windowsOptions"))
}

func (l *list) seccomp(p *corev1.SeccompProfile, at *field.Path) {
	if p == nil {
		return
	}
	chosen(l, at.Child("type"), p.Type, "such as RuntimeDefault",
		corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	l.localhost(p.LocalhostProfile, p.Type == corev1.SeccompProfileTypeLocalhost, at.Child("localhostProfile"))
	if p.LocalhostProfile != nil {
		l.below(at.Child("localhostProfile"), *p.LocalhostProfile)
	}
}

func (l *list) appArmor(p *corev1.AppArmorProfile, at *field.Path) {
	if p == nil {
		return
	}
	chosen(l, at.Child("type"), p.Type, "such as RuntimeDefault",
		corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	at = at.Child("localhostProfile")
	l.localhost(p.LocalhostProfile, p.Type == corev1.AppArmorProfileTypeLocalhost, at)
	if p.LocalhostProfile != nil {
		l.required(at, *p.LocalhostProfile, "the name of the profile")
		l.invalid(strings.TrimSpace(*p.LocalhostProfile) != *p.LocalhostProfile, at, p.LocalhostProfile, "must have no blanks at its ends")
		l.when(len(*p.LocalhostProfile) > 4095, field.TooLong(at, "", 4095))
	}
}

// localhost adds the problem of a profile that is there without its type, or missing with it.
func (l *list) localhost(profile *string, wanted bool, at *field.Path) {
	l.missing(wanted && profile == nil, at, "type Localhost needs the name of a profile")
	l.forbidden(!wanted && profile != nil, at, "is for type Localhost")
}

// userName matches the names of Windows users.
var userName = regexp.MustCompile(`^(([^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}|` +
	`[a-zA-Z0-9][a-zA-Z0-9-]{0,62}(\.[a-zA-Z0-9][a-zA-Z0-9-]{0,62})*)\\)?[^"/\\:;|=,+*?<>@\[\]]{1,104}$`)

// windows adds the problems of a Windows container.
func (l *list) windows(w *corev1.WindowsSecurityContextOptions, at *field.Path) {
	if w == nil {
		return
	}
	if w.GMSACredentialSpecName != nil {
		l.valid(at.Child("gmsaCredentialSpecName"), *w.GMSACredentialSpecName, validation.IsDNS1123Subdomain)
	}
	if s, at := w.GMSACredentialSpec, at.Child("gmsaCredentialSpec"); s != nil {
		l.required(at, *s, "the content of the credential spec")
		l.when(len(*s) > 64<<10, field.TooLong(at, "", 64<<10))
	}
	if u := w.RunAsUserName; u != nil {
		l.invalid(!userName.MatchString(*u), at.Child("runAsUserName"), *u, `must be USER or DOMAIN\USER`)
	}
}
