package doctor

import (
	"fmt"
	"slices"
	"strings"

	"usher.dev/usher/command/review"
)

// The kinds of findings. Each is the anchor of its section in docs/troubleshooting.md.
const (
	noSuchService       = "service-missing"
	headlessService     = "service-headless"
	noSuchPort          = "service-port-missing"
	externalService     = "service-external-name"
	noEndpoints         = "no-endpoints"
	noReadyEndpoints    = "no-ready-endpoints"
	invalidURL          = "url-invalid"
	unknownHost         = "url-host-unknown"
	refusedConnection   = "connection-refused"
	plainHTTP           = "plain-http"
	handshakeTimeout    = "handshake-timeout"
	handshakeFailed     = "handshake-failed"
	bundleMissing       = "ca-bundle-missing"
	bundleInvalid       = "ca-bundle-invalid"
	bundleWithKey       = "ca-bundle-private-key"
	bundleMismatch      = "ca-bundle-mismatch"
	expiredCA           = "ca-expired"
	expiredCertificate  = "certificate-expired"
	earlyCertificate    = "certificate-not-yet-valid"
	legacyCommonName    = "certificate-common-name-only"
	wrongName           = "certificate-name"
	wrongUsage          = "certificate-usage"
	conditionInvalid    = "match-condition-invalid"
	unknownPath         = "usher-path-unknown"
	twoAmplifiers       = "two-amplifiers"
	koordinatorToo      = "koordinator-beside-usher"
	failOwnNamespace    = "fail-own-namespace"
	failTokenReviews    = "fail-token-reviews"
	failNodes           = "fail-nodes"
	failLeases          = "fail-leases"
	failKubeSystem      = "fail-kube-system"
	failEvents          = "fail-events"
	ruleEverything      = "rule-everything"
	unknownResource     = "rule-unknown-resource"
	wrongGroup          = "rule-wrong-group"
	wrongVersion        = "rule-wrong-version"
	wrongScope          = "rule-wrong-scope"
	neverSent           = "rule-never-sent"
	notInstalled        = "rule-not-installed"
	noNamespace         = "selector-no-namespace"
	selectorNoEffect    = "selector-no-effect"
	objectSelectorNever = "object-selector-never"
	exactMisses         = "match-policy-exact"
	withoutV1           = "review-version-v1"
	sideEffects         = "side-effects"
	podTimeouts         = "pod-timeouts"
	notRegistered       = "usher-not-registered"
	differs             = "usher-registration-differs"
	rightsMissing       = "usher-rights-missing"
	expiresSoon         = "certificate-expires-soon"
	expiresSoonCA       = "ca-expires-soon"
	bundleStale         = "ca-bundle-stale"
	longTimeout         = "timeout-long"
	notReadable         = "not-readable"
	notSeen             = "certificate-not-seen"
)

// IDs returns the kinds of findings, those that cause others first: findings of the same severity are in this order.
func IDs() []string {
	return []string{
		noSuchService, headlessService, noSuchPort, externalService, noEndpoints, noReadyEndpoints, invalidURL, unknownHost,
		refusedConnection, plainHTTP, handshakeTimeout, handshakeFailed,
		bundleMissing, bundleInvalid, bundleWithKey, expiredCertificate, earlyCertificate, expiredCA, bundleMismatch, legacyCommonName, wrongName, wrongUsage,
		conditionInvalid, unknownPath, twoAmplifiers, koordinatorToo,
		failTokenReviews, failOwnNamespace, failNodes, failLeases, failKubeSystem, failEvents,
		unknownResource, wrongGroup, wrongVersion, wrongScope, neverSent, noNamespace, selectorNoEffect, objectSelectorNever,
		notRegistered, differs, rightsMissing, exactMisses, withoutV1, sideEffects, podTimeouts, ruleEverything,
		expiresSoon, expiresSoonCA, bundleStale, notInstalled, longTimeout, notReadable, notSeen,
	}
}

// problem returns a finding whose object is filled in later.
func problem(id string, severity review.Severity, fix, format string, args ...any) review.Finding {
	return review.Finding{ID: id, Severity: severity, Message: fmt.Sprintf(format, args...), Fix: fix, Link: "docs/troubleshooting.md#" + id}
}

// severities are in the order in which findings are printed.
var severities = []review.Severity{review.Error, review.Unknown, review.Warning, review.Info}

// compare orders findings: the worst first, and of those the causes of others first.
func compare(a, b review.Finding) int {
	if d := slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity); d != 0 {
		return d
	}
	all := IDs()
	return slices.Index(all, a.ID) - slices.Index(all, b.ID)
}

// list joins words for a sentence: "a, b and c".
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
